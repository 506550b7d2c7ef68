package fakeapi

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/sharding"
)

// gzipThreshold is the body size in bytes above which kube-apiserver compresses.
const gzipThreshold = 128 << 10

// inconsistentRV is the resourceVersion of a continue token that requests the rest of a list in its newest state.
const inconsistentRV = -1

// continueToken is the content of a continue token, in kube-apiserver's format.
type continueToken struct {
	Version string `json:"v"`
	RV      int64  `json:"rv"`
	Start   string `json:"start"`
}

func (c continueToken) encode() string {
	c.Version = metav1.SchemeGroupVersion.String()
	// Marshalling a struct of strings and a number cannot fail.
	data, _ := json.Marshal(c)
	return base64.RawURLEncoding.EncodeToString(data)
}

func decodeToken(s string) (continueToken, error) {
	var c continueToken
	data, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil || c.Start == "" || c.RV == 0 {
		return c, apierrors.NewBadRequest("continue key is not valid")
	}
	return c, nil
}

type page struct {
	objects []*object
	meta    metav1.ListMeta
}

func (s *Server) serveList(q *request) error {
	p, err := s.page(q)
	if err != nil {
		return err
	}
	if q.fault != nil && q.fault.Unsorted {
		p.objects = slices.Clone(p.objects)
		rand.Shuffle(len(p.objects), func(i, j int) { p.objects[i], p.objects[j] = p.objects[j], p.objects[i] })
	}
	s.requestLog.listed(q.kind.GroupVersionResource, len(p.objects))
	return q.writePage(p)
}

func (s *storage) page(q *request) (page, error) {
	state, rv, start, err := s.listState(q)
	if err != nil {
		return page{}, err
	}
	if q.namespace != "" {
		// Keys begin with the namespace and "/". "0" is the character after "/", so the keys of the namespace are from
		// namespace+"/" to namespace+"0".
		state = state[search(state, q.namespace+"/"):search(state, q.namespace+"0")]
	}
	first := search(state, start)
	limit := int(q.options.Limit)
	if q.options.ResourceVersion == "0" && q.options.Continue == "" {
		// At resourceVersion "0" kube-apiserver answers from its watch cache and ignores the limit.
		limit = 0
	}
	p := page{meta: metav1.ListMeta{ResourceVersion: formatRV(rv), ShardInfo: q.shardInfo()}}
	last := ""
	for i, o := range state[first:] {
		if !q.selects(o) {
			continue
		}
		if limit > 0 && len(p.objects) == limit {
			p.meta.Continue = continueToken{RV: int64(rv), Start: last + "\x00"}.encode()
			if q.options.selectsAll() {
				p.meta.RemainingItemCount = q.count(state[first+i:])
			}
			break
		}
		p.objects = append(p.objects, o)
		last = o.key
	}
	return p, nil
}

func (q *request) count(objects []*object) *int64 {
	var n int64
	for _, o := range objects {
		if q.selects(o) {
			n++
		}
	}
	return &n
}

func (s *storage) listState(q *request) (state []*object, rv uint64, start string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[q.kind.GroupVersionResource]
	o := q.options
	exact := o.rv
	switch {
	case o.Continue != "":
		token, err := decodeToken(o.Continue)
		if err != nil {
			return nil, 0, "", err
		}
		start = token.Start
		if token.RV == inconsistentRV {
			return t.ordered(), s.rv, start, nil
		}
		if uint64(token.RV) < s.oldestLocked(t) {
			return nil, 0, "", expiredContinue(continueToken{RV: inconsistentRV, Start: start}.encode())
		}
		exact = uint64(token.RV)
	case o.ResourceVersionMatch == metav1.ResourceVersionMatchExact:
	case o.rv > 0 && o.Limit > 0 && o.ResourceVersionMatch == "":
		// As in kube-apiserver, a list with a limit but no resourceVersionMatch reads exactly the given resourceVersion.
	case o.rv > s.rv:
		return nil, 0, "", tooLarge(o.rv, formatRV(s.rv))
	default:
		return t.ordered(), s.rv, "", nil
	}
	if exact > s.rv {
		return nil, 0, "", tooLarge(exact, formatRV(s.rv))
	}
	if exact < s.oldestLocked(t) {
		return nil, 0, "", expiredList()
	}
	return t.at(exact), exact, start, nil
}

func (s *storage) oldestLocked(t *table) uint64 { return max(s.compacted, t.trimmed) }

func (q *request) writePage(p page) error {
	items := make([][]byte, 0, len(p.objects))
	size := 0
	for _, o := range p.objects {
		body, err := o.item(q.repr)
		if err != nil {
			return err
		}
		items = append(items, body)
		size += len(body)
	}
	q.w.Header().Set("Content-Type", q.repr.contentType())
	body := q.body()
	out := body
	if size > gzipThreshold && strings.Contains(q.r.Header.Get("Accept-Encoding"), "gzip") {
		q.w.Header().Set("Content-Encoding", "gzip")
		q.w.Header().Add("Vary", "Accept-Encoding")
		// NewWriterLevel fails only for an invalid compression level.
		zip, _ := gzip.NewWriterLevel(body, gzip.BestSpeed)
		defer func() { _ = zip.Close() }()
		out = zip
	}
	q.w.WriteHeader(http.StatusOK)
	// An error means that the client has closed the connection. The answer has begun, so the server cannot report the
	// error.
	if q.repr.protobuf() {
		_ = q.writeProtobufList(out, p.meta, items)
	} else {
		_ = q.writeJSONList(out, p.meta, items)
	}
	return nil
}

func (q *request) listKind() (apiVersion, kindName string) {
	apiVersion, kindName = q.repr.typeMeta(q.kind)
	return apiVersion, kindName + "List"
}

func (q *request) writeJSONList(w io.Writer, m metav1.ListMeta, items [][]byte) error {
	apiVersion, kindName := q.listKind()
	metadata, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[`, kindName, apiVersion, metadata)
	for i, item := range items {
		if i > 0 {
			_, _ = io.WriteString(w, ",")
		}
		if _, err := w.Write(item); err != nil {
			return err
		}
	}
	_, _ = io.WriteString(w, "]}\n")
	return nil
}

func (q *request) writeProtobufList(w io.Writer, m metav1.ListMeta, items [][]byte) error {
	apiVersion, kindName := q.listKind()
	raw, err := m.Marshal()
	if err != nil {
		return err
	}
	metadata := appendField(nil, 1, raw)
	length := len(metadata)
	var head []byte
	for _, item := range items {
		head = appendFieldHeader(head[:0], 2, len(item))
		length += len(head) + len(item)
	}
	_, _ = w.Write(append(appendEnvelopeHeader(nil, apiVersion, kindName, length), metadata...))
	for _, item := range items {
		head = appendFieldHeader(head[:0], 2, len(item))
		if _, err := w.Write(head); err != nil {
			return err
		}
		if _, err := w.Write(item); err != nil {
			return err
		}
	}
	return nil
}

const (
	fieldName      = "metadata.name"
	fieldNamespace = "metadata.namespace"
	fieldNode      = "spec.nodeName"
	fieldPhase     = "status.phase"
)

type listOptions struct {
	internalversion.ListOptions
	labels labels.Selector
	fields fields.Selector
	shard  sharding.Selector
	// rv is the requested resourceVersion. It is 0 if none was requested, or "0".
	rv uint64
}

// gates are the feature gates of kube-apiserver that change how a server reads list options.
type gates struct {
	watchList, sharding bool
}

// parseListOptions returns the list options in a query. It refuses the same options as kube-apiserver, with the same
// texts.
func parseListOptions(query url.Values, k *kind, on gates) (listOptions, error) {
	o := listOptions{labels: labels.Everything(), fields: fields.Everything()}
	if err := scheme.ParameterCodec.DecodeParameters(query, metav1.SchemeGroupVersion, &o.ListOptions); err != nil {
		return o, apierrors.NewBadRequest(err.Error())
	}
	if errs := validation.ValidateListOptions(&o.ListOptions, on.watchList); len(errs) > 0 {
		return o, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", errs)
	}
	if o.ResourceVersion != "" {
		rv, err := strconv.ParseUint(o.ResourceVersion, 10, 63)
		if err != nil {
			return o, apierrors.NewBadRequest(fmt.Sprintf("Invalid value: %q for resourceVersion", o.ResourceVersion))
		}
		o.rv = rv
	}
	if !o.Watch && o.Continue != "" && o.rv != 0 {
		return o, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	if o.LabelSelector != nil {
		o.labels = o.LabelSelector
	}
	if o.FieldSelector != nil {
		o.fields = o.FieldSelector
	}
	if err := k.checkFields(o.fields); err != nil {
		return o, apierrors.NewBadRequest(err.Error())
	}
	var err error
	if o.ShardSelector != "" && on.sharding {
		o.shard, err = parseShardSelector(o.ShardSelector)
	}
	return o, err
}

func (k *kind) checkFields(selector fields.Selector) error {
	for _, r := range selector.Requirements() {
		switch {
		case r.Field == fieldName:
		case r.Field == fieldNamespace && k.Namespaced:
		case k.Kind == "Pod" && (r.Field == fieldNode || r.Field == fieldPhase):
		default:
			return fmt.Errorf("field label not supported: %s", r.Field)
		}
	}
	return nil
}

// selects reports whether an object matches the request's namespace and selectors. A nil object never matches.
func (q *request) selects(o *object) bool {
	switch {
	case o == nil:
		return false
	case q.namespace != "" && o.namespace != q.namespace:
		return false
	}
	return q.options.labels.Matches(o.labels) && q.options.fields.Matches(o) && q.options.inShard(o)
}

func (o listOptions) selectsAll() bool { return o.labels.Empty() && o.fields.Empty() && o.shard == nil }

var shardRange = regexp.MustCompile(
	`^\s*shardRange\(\s*(object\.metadata\.(?:uid|namespace))\s*,\s*'(0x[0-9a-f]{16})'\s*,\s*` +
		`'(0x[0-9a-f]{16}|0x10000000000000000)'\s*\)\s*$`)

// parseShardSelector accepts the syntax of kube-apiserver's strict parser. As in kube-apiserver, a syntax error is not
// a 400 but a 500.
func parseShardSelector(s string) (sharding.Selector, error) {
	var ranges []sharding.ShardRangeRequirement
	for term := range strings.SplitSeq(s, "||") {
		parts := shardRange.FindStringSubmatch(term)
		if parts == nil {
			return nil, fmt.Errorf("invalid shard selector: %q is no shardRange() with hashes of 16 digits", term)
		}
		r := sharding.ShardRangeRequirement{Key: parts[1], Start: parts[2], End: parts[3]}
		if !sharding.HexLess(r.Start, r.End) {
			return nil, fmt.Errorf("invalid shard selector: shard range start %s must be less than end %s", r.Start, r.End)
		}
		if len(ranges) > 0 && r.Key != ranges[0].Key {
			return nil, fmt.Errorf("invalid shard selector: all shard ranges must use the same field, got %q and %q",
				ranges[0].Key, r.Key)
		}
		ranges = append(ranges, r)
	}
	return sharding.NewSelector(ranges...), nil
}

func (o listOptions) inShard(obj *object) bool {
	if o.shard == nil {
		return true
	}
	ours, err := o.shard.Matches(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: obj.namespace,
		UID: obj.uid}})
	return ours && err == nil
}

// shardInfo returns the ShardInfo of a list. As in kube-apiserver 1.36, lists of custom resources and of metadata have
// none.
func (q *request) shardInfo() *metav1.ShardInfo {
	if q.options.shard == nil || q.kind.custom() || q.repr.metadata() {
		return nil
	}
	return &metav1.ShardInfo{Selector: q.options.shard.String()}
}
