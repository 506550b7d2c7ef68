package entry

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
