package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/columns"
	"github.com/larder-dev/larder/snapshot"
)

// renderer encodes the entries of one collection for clients. It is safe for concurrent use.
type renderer struct {
	kind     schema.GroupVersionKind
	metadata bool
	// known is true if client-go has the Go type of the kind, so that protobuf can be served.
	known      bool
	builtIn    bool
	decoder    *snapshot.Decoder
	columns    *columns.Columns
	apiVersion string
	// listKind is the kind of a list of whole objects; "" means kind + "List".
	listKind   string
	deprecated deprecation
}

func newRenderer(info entry.Info) *renderer {
	gvk := info.Identity.GroupVersion().WithKind(info.Resource.Kind)
	r := &renderer{kind: gvk, metadata: info.Identity.Representation == entry.Metadata,
		known: scheme.Scheme.Recognizes(gvk), apiVersion: gvk.GroupVersion().String(),
		listKind: info.Resource.ListKind, deprecated: deprecationOf(gvk),
		builtIn: extending(gvk.Group) || scheme.Scheme.IsGroupRegistered(gvk.Group),
		decoder: snapshot.NewDecoder(snapshot.Collection{Identity: info.Identity, Resource: info.Resource}),
		columns: columns.For(info.Identity.GroupResource(), info.Resource.Columns, false)}
	return r
}

// extending reports whether a group has the kinds that extend an API server: CustomResourceDefinitions or APIServices.
// kube-apiserver has their Go types; client-go does not.
func extending(group string) bool {
	return group == "apiextensions.k8s.io" || group == "apiregistration.k8s.io"
}

func (r *renderer) codec() codec.Codec { return r.decoder.Codec() }

func (r *renderer) typeMeta(f format, list bool) (apiVersion, kind string) {
	apiVersion, kind = r.apiVersion, r.kind.Kind
	switch f.form {
	case table:
		return "meta.k8s.io/" + f.version, "Table"
	case metadata:
		apiVersion, kind = "meta.k8s.io/"+f.version, "PartialObjectMetadata"
	}
	switch {
	case list && f.form != metadata && r.listKind != "":
		kind = r.listKind
	case list:
		kind += "List"
	}
	return apiVersion, kind
}

// typed decodes an entry to its kind's Go type in client-go, which must exist.
func (r *renderer) typed(e entry.Entry) (runtime.Object, error) {
	obj, err := scheme.Scheme.New(r.kind)
	if err != nil {
		return nil, err
	}
	if m, ok := obj.(interface{ Unmarshal([]byte) error }); ok && e.Encoding == codec.EncodingProtobuf {
		message, err := codec.Message(e.Payload)
		if err == nil {
			err = m.Unmarshal(message)
		}
		if err != nil {
			return nil, fmt.Errorf("%s cannot be decoded: %w: %w", e.Key, err, entry.ErrDamaged)
		}
		return obj, nil
	}
	u, err := r.decoder.Decode(e)
	if err != nil {
		return nil, err
	}
	return obj, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj)
}

func (r *renderer) memory(f format, e entry.Entry) int64 {
	n := renderedFactor * int64(len(e.Payload))
	if f.media == mediaProtobuf && e.Encoding == codec.EncodingProtobuf {
		return n // most of the stored bytes are copied, not decoded
	}
	decoded := codec.Weight(e.Encoding, e.Payload)
	if f.media == mediaYAML {
		decoded *= 2 // YAML is made from JSON, which is made from the decoded object
	}
	return max(n, decoded)
}

// item encodes an entry as an item of a list. With alone set it encodes the entry as the object of a get or of an
// event, with apiVersion and kind. now is the time for the ages in a Table.
func (r *renderer) item(f format, e entry.Entry, alone bool, now time.Time) ([]byte, error) {
	if f.media == mediaProtobuf {
		return r.protobuf(f, e, alone)
	}
	var text []byte
	var err error
	if f.form == table {
		text, err = r.row(f, e, now)
	} else {
		text, err = r.json(f, e, alone)
	}
	if err == nil && f.media == mediaYAML {
		return yaml.JSONToYAML(text)
	}
	return text, err
}

// protobuf returns the protobuf message of an entry, or with alone set a runtime.Unknown with the magic number.
func (r *renderer) protobuf(f format, e entry.Entry, alone bool) (message []byte, err error) {
	stored := e.Encoding == codec.EncodingProtobuf
	if stored {
		if message, err = codec.Message(e.Payload); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Key, err)
		}
	}
	switch {
	case f.form == metadata && stored:
		_, meta, _, err := metadataOf(message)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Key, err)
		}
		message = appendField(nil, 1, meta)
	case f.form == metadata:
		m, err := r.partial(e)
		if err == nil {
			message, err = m.Marshal()
		}
		if err != nil {
			return nil, err
		}
	case !stored:
		obj, err := r.typed(e)
		if err == nil {
			message, err = obj.(interface{ Marshal() ([]byte, error) }).Marshal()
		}
		if err != nil {
			return nil, err
		}
	}
	if alone {
		apiVersion, kind := r.typeMeta(f, false)
		message = appendEnvelope(make([]byte, 0, len(message)+128), apiVersion, kind, message)
	}
	return message, nil
}

// json returns an entry as JSON. Objects that are stored as JSON keep fields unknown to this program. As in
// kube-apiserver, the items in a list of a built-in kind have no apiVersion and kind.
func (r *renderer) json(f format, e entry.Entry, alone bool) ([]byte, error) {
	if f.form == metadata {
		m, err := r.partial(e)
		if err != nil {
			return nil, err
		}
		m.APIVersion, m.Kind = r.typeMeta(f, false)
		return json.Marshal(m)
	}
	if !r.known || r.metadata || e.Encoding != codec.EncodingProtobuf {
		u, err := r.decoder.Decode(e)
		if err != nil {
			return nil, err
		}
		if r.builtIn && !r.metadata && !alone {
			delete(u.Object, "apiVersion")
			delete(u.Object, "kind")
		}
		return json.Marshal(u.Object)
	}
	obj, err := r.typed(e)
	if err != nil {
		return nil, err
	}
	var gvk schema.GroupVersionKind
	if alone {
		gvk = r.kind
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return json.Marshal(obj)
}

// partial returns the metadata of an entry's object. It skips metadata fields that do not decode.
func (r *renderer) partial(e entry.Entry) (*metav1.PartialObjectMetadata, error) {
	m := &metav1.PartialObjectMetadata{}
	if e.Encoding == codec.EncodingProtobuf { // ObjectMeta is field 1 of every built-in kind
		message, err := codec.Message(e.Payload)
		if err == nil {
			err = m.Unmarshal(message)
		}
		return m, err
	}
	u, err := r.decoder.Decode(e)
	if err != nil {
		return nil, err
	}
	content := map[string]any{"metadata": u.Object["metadata"]}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(content, m) == nil {
		return m, nil
	}
	text, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	m, _, err = entry.ReadMetadata(text)
	return m, err
}

func (r *renderer) row(f format, e entry.Entry, now time.Time) ([]byte, error) {
	u, err := r.decoder.Decode(e)
	if err != nil {
		return nil, err
	}
	row := metav1.TableRow{Cells: r.columns.Row(u, now), Conditions: conditionsOf(u)}
	switch f.include {
	case metav1.IncludeObject:
		row.Object.Raw, err = u.MarshalJSON()
	case metav1.IncludeMetadata:
		row.Object.Raw, err = json.Marshal(partialOf(u, f.version))
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(row)
}

func conditionsOf(u *unstructured.Unstructured) []metav1.TableRowCondition {
	if u.GetKind() != "Pod" || u.GetAPIVersion() != "v1" {
		return nil
	}
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	messages := map[string]string{
		string(corev1.PodSucceeded): "The pod has completed successfully.", string(corev1.PodFailed): "The pod failed.",
	}
	message := messages[phase]
	if message == "" {
		return nil
	}
	return []metav1.TableRowCondition{
		{Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: phase, Message: message},
	}
}

// empty returns the object of a bookmark, with only a resourceVersion and annotations.
func (r *renderer) empty(f format, rv string, annotations map[string]string) ([]byte, error) {
	var obj runtime.Object = &metav1.PartialObjectMetadata{}
	if f.form == table {
		f = format{media: mediaJSON, form: metadata, version: f.version}
	}
	if f.form == whole && r.known && !r.metadata {
		var err error
		if obj, err = scheme.Scheme.New(r.kind); err != nil {
			return nil, err
		}
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	m.SetResourceVersion(rv)
	m.SetAnnotations(annotations)
	apiVersion, kind := r.typeMeta(f, false)
	obj.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	body, err := f.media.encode(obj, apiVersion, kind)
	if f.media == mediaJSON {
		body = bytes.TrimSuffix(body, []byte("\n"))
	}
	return body, err
}

// emptyRow returns the row of a Table that is sent as a bookmark. object is the row's object.
func (r *renderer) emptyRow(object []byte) ([]byte, error) {
	empty, err := r.empty(format{media: mediaJSON}, "", nil)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(empty, &u.Object); err != nil {
		return nil, err
	}
	row := metav1.TableRow{Cells: r.columns.Row(u, time.Now()), Object: runtime.RawExtension{Raw: object}}
	return json.Marshal(row)
}

// partialOf returns the metadata of an object, as a Table's row contains them by default.
func partialOf(u *unstructured.Unstructured, version string) map[string]any {
	return map[string]any{
		"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/" + version, "metadata": u.Object["metadata"],
	}
}

// bare returns an entry for an object of which only the key is known: it has a namespace and a name.
func (r *renderer) bare(key string) (e entry.Entry, err error) {
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{}}}
	u.SetGroupVersionKind(r.kind)
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return e, err
	}
	u.SetNamespace(namespace)
	u.SetName(name)
	c := codec.Unstructured()
	e = entry.Entry{Key: key, Encoding: c.Name()}
	e.Payload, err = c.Append(nil, u)
	return e, err
}

// at returns a copy of an entry with the resourceVersion rv of an event. kube-apiserver sends an object with that
// resourceVersion in the DELETED event of an object that no longer matches the selectors.
func (r *renderer) at(e entry.Entry, rv string) (entry.Entry, error) {
	if e.Encoding == codec.EncodingProtobuf {
		message, err := codec.Message(e.Payload)
		if err == nil {
			types := e.Payload[:len(e.Payload)-len(message)]
			message, err = withResourceVersion(message, rv)
			e.Payload, e.ResourceVersion = append(bytes.Clone(types), message...), rv
		}
		return e, err
	}
	u, err := r.decoder.Decode(e)
	if err != nil {
		return e, err
	}
	u.SetResourceVersion(rv)
	c := codec.Unstructured()
	e.Encoding, e.ResourceVersion = c.Name(), rv
	e.Payload, err = c.Append(nil, u)
	return e, err
}
