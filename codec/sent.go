package codec

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/internal/msgpack"
)

// Sent makes entry.Undecoded objects of one collection from an API server's answers. It is safe for concurrent use.
//
// The objects decode to the same objects as with client-go's decoders, with two exceptions. A typed object has no
// apiVersion and kind; with client-go that depends on its encoding. Metadata have the example's apiVersion and kind, as
// with controller-runtime.
//
// Sent has to decode some objects at once. If that fails, and the object's name is known, the result is an undecodable
// object (entry.Undecoded.Err), so that the reader of a list can continue with the other items. Otherwise Sent returns
// the error.
type Sent struct {
	codec  Codec
	kind   entry.UndecodedKind
	labels bool
	// as is the apiVersion and kind with which metadata are stored. If as is empty, the server's are stored.
	as metav1.TypeMeta
}

// NewSent returns a Sent for objects of the type of example. It returns nil if c is not a codec of this package, since
// only c can make its payloads. labels is true if the caller needs the labels of undecoded objects.
func NewSent(c Codec, example runtime.Object, labels bool) *Sent {
	switch c.(type) {
	case *protobufCodec, *msgpackCodec, *unstructuredCodec:
	default:
		return nil
	}
	s := &Sent{codec: c, labels: labels, kind: entry.UndecodedKind{
		Type:   reflect.TypeOf(example),
		Kind:   expectedKind(c, example),
		Decode: func(encoding string, payload []byte) (runtime.Object, error) { return Decode(c, encoding, payload) },
	}}
	if m, ok := example.(*metav1.PartialObjectMetadata); ok && m.Kind != metadataKind {
		s.as = m.TypeMeta
	}
	return s
}

// Takes reports whether stored objects with this entry.Attributes.Schema lack no field of the codec's Go type.
func (s *Sent) Takes(schema string) bool { return schema == s.codec.Fingerprint() || AsSent(schema) }

// ReadsProtobuf reports whether a server's protobuf of the kind of example can be stored unchanged. example must have
// its apiVersion and kind.
func (s *Sent) ReadsProtobuf(example runtime.Object) bool {
	apiVersion, kind := example.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	return s.protobuf(metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}) != nil
}

const metadataKind = "PartialObjectMetadata"

// named returns the apiVersion and kind to store for an object. of is the TypeMeta in the server's answer.
func (s *Sent) named(of metav1.TypeMeta) metav1.TypeMeta {
	if s.as.Kind != "" && of.Kind == metadataKind {
		return s.as
	}
	return of
}

// expectedKind returns the kind of objects like example: example's kind, or the name of its Go type if the type has
// generated protobuf, as all of Kubernetes' own types do. It returns "" for other types, since a scheme can give them
// any kind. It also returns "" for metadata: some aggregated APIs answer a request for metadata with whole objects, and
// client-go accepts them.
func expectedKind(c Codec, example runtime.Object) string {
	if kind := example.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	_, metadata := example.(*metav1.PartialObjectMetadata)
	if _, ok := c.(*protobufCodec); ok && !metadata {
		return reflect.TypeOf(example).Elem().Name()
	}
	return ""
}

var errNoProtobuf = errors.New("the server sent protobuf, and the codec reads none of this kind: have the client " +
	"ask for JSON (rest.Config.ContentType), or use a codec that does")

// protobuf returns the codec for protobuf messages of a kind, or nil if Sent cannot store them.
func (s *Sent) protobuf(of metav1.TypeMeta) *protobufCodec {
	switch c := s.codec.(type) {
	case *protobufCodec:
		return c
	case *msgpackCodec:
		return c.protobuf()
	case *unstructuredCodec:
		return c.kinds.of(of)
	}
	return nil
}

// Protobuf returns the object in a protobuf message. The object has a copy of the message. of is the server's TypeMeta.
// Protobuf fails if the codec reads no protobuf of that kind.
func (s *Sent) Protobuf(message []byte, of metav1.TypeMeta) (*entry.Undecoded, error) {
	of = s.named(of)
	kept := s.as // kept is the TypeMeta in the payload, and empty for a typed object.
	if _, untyped := s.codec.(*unstructuredCodec); untyped {
		kept = of
	}
	typed := s.protobuf(of)
	if typed == nil || typed.metadata == 0 {
		return nil, fmt.Errorf("%w: %q", errNoProtobuf, of.Kind)
	}
	// 2: one length byte for apiVersion, and one for kind
	payload := make([]byte, 0, len(message)+len(kept.APIVersion)+len(kept.Kind)+2)
	payload = protowire.AppendString(protowire.AppendString(payload, kept.APIVersion), kept.Kind)
	payload = append(payload, message...)
	return s.from(EncodingProtobuf, payload, of, func() (metav1.ObjectMeta, bool) {
		return messageMeta(message, typed.metadata)
	})
}

// JSON returns the object in text, which it copies. It decodes the object if the codec's payloads must be protobuf. of
// is the TypeMeta of an object without apiVersion and kind, such as the items of some lists.
func (s *Sent) JSON(text []byte, of metav1.TypeMeta) (*entry.Undecoded, error) {
	switch s.codec.(type) {
	case *unstructuredCodec:
		return s.unstructured(text, of)
	case *protobufCodec:
		return s.unusual(text, of)
	}
	payload, own, m, err := typedJSON(text)
	if errors.Is(err, errUnusual) {
		return s.unusual(text, of)
	}
	if err != nil {
		return nil, err
	}
	if own.Kind != "" {
		of = own
	}
	u, err := s.from(EncodingMsgpack, payload, of, func() (metav1.ObjectMeta, bool) { return m, true })
	if err != nil || u.Err() == nil {
		return u, err
	}
	_, m, _ = headOf(text) // headOf also reads the labels, unlike typedJSON.
	return entry.NewUndecodable(&s.kind, of, m, u.Err()), nil
}

// from returns an undecoded object with the payload. read returns the object's metadata, or false if they can only be
// read by decoding the object.
func (s *Sent) from(
	encoding string, payload []byte, of metav1.TypeMeta, read func() (metav1.ObjectMeta, bool),
) (*entry.Undecoded, error) {
	m, identified := read()
	known := identified
	if known && s.labels {
		m.Labels, known = s.labelsOf(encoding, payload, of)
	}
	if !known {
		obj, err := Decode(s.codec, encoding, payload)
		if err != nil && identified && m.Name != "" {
			return entry.NewUndecodable(&s.kind, of, m, err), nil
		}
		if err != nil {
			return nil, err
		}
		if m, err = metaOf(obj); err != nil {
			return nil, err
		}
	}
	return entry.NewUndecoded(&s.kind, of, m, encoding, payload), nil
}

func (s *Sent) labelsOf(encoding string, payload []byte, of metav1.TypeMeta) (labels map[string]string, known bool) {
	p, ok := s.codec.(Peeker)
	if typed := s.protobuf(of); typed != nil && encoding == EncodingProtobuf {
		p, ok = typed, true
	}
	if !ok {
		return nil, false
	}
	found, known := p.Labels(nil, encoding, payload)
	if !known || len(found) == 0 {
		return nil, known
	}
	labels = make(map[string]string, len(found))
	for _, l := range found {
		labels[string(l.Name)] = string(l.Value)
	}
	return labels, true
}

// metaOf returns the part of an object's metadata that an entry.Undecoded has: name, UID, resourceVersion and so on.
func metaOf(obj runtime.Object) (metav1.ObjectMeta, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return metav1.ObjectMeta{}, fmt.Errorf("the server sent a %T: %w", obj, err)
	}
	return metav1.ObjectMeta{
		Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUID(), ResourceVersion: m.GetResourceVersion(),
		Labels: m.GetLabels(),
	}, nil
}

// Protobuf field numbers in metav1.ObjectMeta.
const (
	protoName            = 1
	protoNamespace       = 3
	protoUID             = 5
	protoResourceVersion = 6
)

// messageMeta reads the metadata of an object from its protobuf message msg. metadata is the field number of the
// ObjectMeta. known is false if the metadata can only be read by decoding the object.
func messageMeta(msg []byte, metadata protowire.Number) (m metav1.ObjectMeta, known bool) {
	rest, ok := onlyField(msg, metadata)
	for ok && len(rest) > 0 {
		var number protowire.Number
		var value []byte
		if number, value, rest, ok = cutField(rest); !ok {
			break
		}
		switch number {
		case protoName, protoNamespace, protoUID, protoResourceVersion:
			if value == nil {
				return m, false
			}
		}
		switch number {
		case protoName:
			m.Name = string(value)
		case protoNamespace:
			m.Namespace = string(value)
		case protoUID:
			m.UID = types.UID(value)
		case protoResourceVersion:
			m.ResourceVersion = string(value)
		}
	}
	return m, ok
}

// unstructured returns the object in the JSON text, with the payload that the codec Unstructured would write.
func (s *Sent) unstructured(text []byte, of metav1.TypeMeta) (*entry.Undecoded, error) {
	payload := make([]byte, 0, len(text)*7/8)
	err := transcode(text, func(t *transcoder) (err error) {
		if err := t.complete(of); err != nil {
			return err
		}
		payload, _, err = t.value(payload, 0)
		return err
	})
	if err != nil {
		return s.unusual(text, of)
	}
	payload = bytes.Clone(payload)
	own, m := mapMeta(payload)
	return s.from(EncodingMsgpack, payload, own, func() (metav1.ObjectMeta, bool) { return m, true })
}

// mapMeta reads the metadata of an unstructured object from its msgpack payload. Values that are not strings are read
// as empty, as by the methods of Unstructured.
func mapMeta(payload []byte) (of metav1.TypeMeta, m metav1.ObjectMeta) {
	eachText(msgpack.NewReader(payload), func(name string, text []byte) {
		switch name {
		case "apiVersion":
			of.APIVersion = string(text)
		case "kind":
			of.Kind = string(text)
		}
	})
	r := msgpack.NewReader(payload)
	if !r.Enter("metadata") {
		return of, m
	}
	eachText(r, func(name string, text []byte) {
		switch name {
		case "name":
			m.Name = string(text)
		case "namespace":
			m.Namespace = string(text)
		case "uid":
			m.UID = types.UID(text)
		case "resourceVersion":
			m.ResourceVersion = string(text)
		}
	})
	return of, m
}

// eachText calls fn for the members of a map whose values are strings.
func eachText(r msgpack.Reader, fn func(name string, text []byte)) {
	if !r.IsMap() {
		return
	}
	for range r.MapLen() {
		name := r.Bytes()
		if c, _ := r.Peek(); msgpack.IsText(c) {
			fn(string(name), r.Bytes())
		} else {
			r.Skip(1)
		}
	}
}

// unusual decodes JSON text and encodes the object. of is the TypeMeta of an object without apiVersion and kind.
func (s *Sent) unusual(text []byte, of metav1.TypeMeta) (*entry.Undecoded, error) {
	obj, of, err := s.decodeJSON(text, of)
	var payload []byte
	if err == nil {
		err = base.Try("the codec", func() (err error) {
			payload, err = s.codec.Append(nil, obj)
			return err
		})
	}
	if err != nil && !errors.Is(err, ErrNoKind) {
		if own, m, ok := headOf(text); ok {
			if own.Kind != "" {
				of = own
			}
			return entry.NewUndecodable(&s.kind, s.named(of), m, err), nil
		}
	}
	if err != nil {
		return nil, err
	}
	m, err := metaOf(obj)
	if err != nil {
		return nil, err
	}
	u := entry.NewUndecoded(&s.kind, of, m, s.codec.Name(), payload)
	u.Typed = true
	u.Keep(obj)
	return u, nil
}

// decodeJSON returns the object in text, and its TypeMeta, or of if text has neither apiVersion nor kind.
func (s *Sent) decodeJSON(text []byte, of metav1.TypeMeta) (runtime.Object, metav1.TypeMeta, error) {
	if s.kind.Type != reflect.TypeFor[*unstructured.Unstructured]() {
		obj, err := unmarshalJSON(s.kind.Type.Elem(), text)
		if err != nil {
			return nil, of, malformed(text, err)
		}
		if own := obj.GetObjectKind().GroupVersionKind(); own.Kind != "" {
			of.APIVersion, of.Kind = own.ToAPIVersionAndKind()
		}
		setTypeMeta(obj, s.as.APIVersion, s.as.Kind)
		return obj, s.named(of), nil
	}
	decode := func(text []byte) (u *unstructured.Unstructured, err error) {
		u = &unstructured.Unstructured{Object: map[string]any{}}
		return u, utiljson.Unmarshal(text, &u.Object)
	}
	u, err := decode(text)
	if err != nil {
		return nil, of, malformed(text, atJSON(errFitsNot, text, func(text []byte) bool {
			_, err := decode(text)
			return err != nil
		}))
	}
	if u.GetKind() == "" && u.GetAPIVersion() == "" {
		u.SetKind(of.Kind)
		u.SetAPIVersion(of.APIVersion)
	}
	if u.GetKind() == "" {
		return nil, of, ErrNoKind
	}
	return u, metav1.TypeMeta{Kind: u.GetKind(), APIVersion: u.GetAPIVersion()}, nil
}

// headOf reads the kind and metadata of an object's JSON without the Go type. ok is false for an unreadable name.
func headOf(text []byte) (of metav1.TypeMeta, m metav1.ObjectMeta, ok bool) {
	head, _, err := entry.ReadMetadata(text)
	if err != nil || head.Name == "" {
		return of, m, false
	}
	return head.TypeMeta, metav1.ObjectMeta{
		Name: head.Name, Namespace: head.Namespace, UID: head.UID, ResourceVersion: head.ResourceVersion,
		Labels: head.Labels,
	}, true
}
