package entry

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/sharding"

	"github.com/larder-dev/larder/internal/base"
)

// Representation is the form of a collection's objects in Go: structs, unstructured objects or only metadata. One
// resource in two representations is two collections, because the stored bytes differ.
type Representation string

// Representations of objects in Go.
const (
	// Typed objects are Go structs such as *corev1.Pod.
	Typed Representation = "typed"
	// Unstructured objects are *unstructured.Unstructured.
	Unstructured Representation = "unstructured"
	// Metadata objects are *metav1.PartialObjectMetadata.
	Metadata Representation = "metadata"
)

// Identity names a collection: the scope of its list, and the form of its objects. A resourceVersion from one identity
// is meaningless in another, so each identity has its own bucket in the file.
type Identity struct {
	schema.GroupVersionResource

	// Namespace is the scope of the list. Empty means every namespace, or a resource without namespaces.
	Namespace string
	// LabelSelector, FieldSelector and ShardSelector are the selectors of the requests; empty selects everything.
	// ShardSelector (see the function) needs an API server with the feature gate ShardedListAndWatch (KEP-5866).
	LabelSelector string
	FieldSelector string
	ShardSelector string
	// Representation is the form of the objects. Empty is Typed.
	Representation Representation
}

// Canonical returns the identity with its selectors in canonical form (their String methods) and its representation
// set. The error names the invalid field.
func (id Identity) Canonical() (Identity, error) {
	if id.Version == "" || id.Resource == "" {
		return id, fmt.Errorf("identity %s: version and resource must not be empty", id)
	}
	switch id.Representation {
	case "":
		id.Representation = Typed
	case Typed, Unstructured, Metadata:
	default:
		return id, fmt.Errorf("identity %s: representation must be one of %s, %s, %s", id, Typed, Unstructured, Metadata)
	}
	label, err := canonical(id.LabelSelector, func(s string) (labels.Selector, error) { return labels.Parse(s) })
	if err != nil {
		return id, fmt.Errorf("identity %s: label selector: %w", id, err)
	}
	field, err := canonical(id.FieldSelector, fields.ParseSelector)
	if err != nil {
		return id, fmt.Errorf("identity %s: field selector: %w", id, err)
	}
	shard, err := canonical(id.ShardSelector, parseShards)
	if err != nil {
		return id, fmt.Errorf("identity %s: shard selector: %w", id, err)
	}
	id.LabelSelector, id.FieldSelector, id.ShardSelector = label, field, shard
	return id, nil
}

// errEmptySelector refuses a blank selector such as " ". It selects everything, but labels.Nothing prints as "" too.
var errEmptySelector = errors.New("it is blank; leave it empty to select everything")

func canonical[S interface {
	Empty() bool
	String() string
}](s string, parse func(string) (S, error)) (string, error) {
	if s == "" {
		return "", nil
	}
	sel, err := parse(s)
	if err != nil {
		return "", err
	}
	if sel.Empty() {
		return "", errEmptySelector
	}
	return sel.String(), nil
}

// ID returns the name of the collection's bucket: 20 hex digits of a SHA-256 over all fields of the canonical identity.
func (id Identity) ID() string {
	if c, err := id.Canonical(); err == nil {
		id = c
	}
	var b []byte
	for _, field := range []string{
		id.Group, id.Version, id.Resource, id.Namespace,
		id.LabelSelector, id.FieldSelector, id.ShardSelector, string(id.Representation),
	} {
		b = append(binary.AppendUvarint(b, uint64(len(field))), field...)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:10])
}

// String describes the identity for users, as in "deployments.v1.apps in namespace web, label selector app=shop
// (unstructured)". Unprintable characters, which another program's file may have, are quoted.
func (id Identity) String() string {
	var b strings.Builder
	b.WriteString(base.PrintableText(id.Resource) + "." + base.PrintableText(id.Version))
	if id.Group != "" {
		b.WriteString("." + base.PrintableText(id.Group))
	}
	if id.Namespace != "" {
		b.WriteString(" in namespace " + base.PrintableText(id.Namespace))
	}
	for _, s := range []struct{ what, selector string }{
		{"label", id.LabelSelector}, {"field", id.FieldSelector}, {"shard", id.ShardSelector},
	} {
		if s.selector != "" {
			b.WriteString(", " + s.what + " selector " + base.PrintableText(s.selector))
		}
	}
	if id.Representation != "" && id.Representation != Typed {
		b.WriteString(" (" + base.PrintableText(string(id.Representation)) + ")")
	}
	return b.String()
}

// Fields that a shard selector may hash, and the range of hashes, from firstHash up to but not including hashesEnd.
const (
	shardByUID       = "object.metadata.uid"
	shardByNamespace = "object.metadata.namespace"
	firstHash        = "0x0000000000000000"
	hashesEnd        = "0x10000000000000000"
)

// ShardSelector returns a value for Identity.ShardSelector that selects one shard of a resource. of is the number of
// shards, and index is from 0 to of-1. The shards have about the same size, because they are equal ranges of the UIDs'
// hashes. If of is 1 the selector is empty, which selects everything. An object stays in its shard as long as it
// exists. A deleted and newly created object has a new UID and may be in another shard.
//
// A selector by namespace (object.metadata.namespace) can be written by hand. Its shards may differ much in size, even
// if namespaces do not. Names that differ only in their last characters have hashes (64-bit FNV-1a) that start with
// equal digits, so web-1 to web-9 are in one shard.
func ShardSelector(index, of int) (string, error) {
	if of < 1 || index < 0 || index >= of {
		return "", fmt.Errorf("shard %d of %d: the index must be from 0 to one less than the number of shards", index, of)
	}
	if of == 1 {
		return "", nil
	}
	r := sharding.ShardRangeRequirement{Key: shardByUID, Start: shardStart(index, of), End: hashesEnd}
	if index+1 < of {
		r.End = shardStart(index+1, of)
	}
	return sharding.NewSelector(r).String(), nil
}

// shardStart returns the first hash of a shard: index × 2^64 / of, rounded down. It needs index < of and of > 1.
func shardStart(index, of int) string {
	start, _ := bits.Div64(uint64(index), 0, uint64(of))
	return fmt.Sprintf("0x%016x", start)
}

// Shards returns the parsed ShardSelector. The result selects everything if ShardSelector is empty or invalid.
func (id Identity) Shards() sharding.Selector {
	s, err := parseShards(id.ShardSelector)
	if err != nil {
		return sharding.Everything()
	}
	return s
}

// parseShards parses a selector by the API server's rules: ranges of 16 digits, joined by "||" (KEP-5866). It keeps the
// order of the ranges, so two spellings of one selection are two collections.
func parseShards(s string) (sharding.Selector, error) {
	if strings.TrimSpace(s) == "" {
		return sharding.Everything(), nil
	}
	var ranges []sharding.ShardRangeRequirement
	for term := range strings.SplitSeq(s, "||") {
		r, err := parseShardRange(strings.TrimSpace(term))
		if err != nil {
			return nil, err
		}
		if len(ranges) > 0 && r.Key != ranges[0].Key {
			return nil, fmt.Errorf("its ranges are of %s and %s, and must be of one field", ranges[0].Key, r.Key)
		}
		ranges = append(ranges, r)
	}
	return sharding.NewSelector(ranges...), nil
}

var shardRange = regexp.MustCompile(
	`^shardRange\(\s*([a-z.]+)\s*,\s*['"](0x[0-9a-f]{16})['"]\s*,\s*['"](0x[0-9a-f]{16,17})['"]\s*\)$`)

func parseShardRange(term string) (r sharding.ShardRangeRequirement, err error) {
	parts := shardRange.FindStringSubmatch(term)
	if parts == nil {
		return r, fmt.Errorf("%q is not of the form shardRange(%s, '%s', '%s')", term, shardByUID, firstHash, hashesEnd)
	}
	r = sharding.ShardRangeRequirement{Key: parts[1], Start: parts[2], End: parts[3]}
	switch {
	case r.Key != shardByUID && r.Key != shardByNamespace:
		return r, fmt.Errorf("%q is of the field %s, and must be of %s or %s", term, r.Key, shardByUID, shardByNamespace)
	case sharding.HexLess(hashesEnd, r.End):
		return r, fmt.Errorf("%q ends above %s", term, hashesEnd)
	case !sharding.HexLess(r.Start, r.End):
		return r, fmt.Errorf("%q selects nothing: its end must be above its start", term)
	}
	return r, nil
}
