package fakeapi

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type representation int

const (
	asJSON representation = iota
	asProtobuf
	asMetadataJSON
	asMetadataProtobuf
	representations
)

const (
	contentJSON     = "application/json"
	contentProtobuf = "application/vnd.kubernetes.protobuf"
	partialKind     = "PartialObjectMetadata"
)

func (r representation) protobuf() bool { return r == asProtobuf || r == asMetadataProtobuf }

func (r representation) metadata() bool { return r == asMetadataJSON || r == asMetadataProtobuf }

func (r representation) typeMeta(k *kind) (apiVersion, kindName string) {
	if r.metadata() {
		return metav1.SchemeGroupVersion.String(), partialKind
	}
	return k.GroupVersion().String(), k.Kind
}

// item returns an object's encoding inside a list. The result is shared and must not be modified.
func (o *object) item(r representation) ([]byte, error) {
	if (r == asProtobuf) != o.kind.custom() && (r == asJSON || r == asProtobuf) {
		return o.raw, nil
	}
	if cached := o.derived[r].Load(); cached != nil {
		return *cached, nil
	}
	body, err := o.derive(r)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", o.kind.Kind, o.key, err)
	}
	o.derived[r].Store(&body)
	return body, nil
}

func (o *object) derive(r representation) ([]byte, error) {
	switch r {
	case asJSON:
		obj, err := o.decode()
		if err != nil {
			return nil, err
		}
		return json.Marshal(obj)
	case asMetadataJSON, asMetadataProtobuf:
		partial, err := o.partial()
		if err != nil {
			return nil, err
		}
		if r == asMetadataProtobuf {
			return partial.Marshal()
		}
		partial.APIVersion, partial.Kind = r.typeMeta(o.kind)
		return json.Marshal(partial)
	}
	return nil, fmt.Errorf("%s has no protobuf form", o.kind.Kind)
}

func (o *object) partial() (*metav1.PartialObjectMetadata, error) {
	p := &metav1.PartialObjectMetadata{}
	if o.kind.custom() {
		if err := json.Unmarshal(o.raw, p); err != nil {
			return nil, err
		}
		p.TypeMeta = metav1.TypeMeta{}
		return p, nil
	}
	// In protobuf, every built-in type has its metadata in the same field as PartialObjectMetadata. Unmarshal skips all
	// other fields.
	return p, p.Unmarshal(o.raw)
}

// standalone returns an object's encoding as the body of a get or inside a watch event.
func (o *object) standalone(r representation) ([]byte, error) {
	body, err := o.item(r)
	if err != nil {
		return nil, err
	}
	apiVersion, kindName := r.typeMeta(o.kind)
	switch {
	case r.protobuf():
		return appendEnvelope(make([]byte, 0, len(body)+128), apiVersion, kindName, body), nil
	case r == asJSON && !o.kind.custom():
		out := make([]byte, 0, len(body)+64)
		out = fmt.Appendf(out, `{"kind":%q,"apiVersion":%q,`, kindName, apiVersion)
		return append(out, body[1:]...), nil
	}
	return body, nil
}

func (k *kind) bookmark(r representation, rv uint64, initialEventsEnd bool) ([]byte, error) {
	empty := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: formatRV(rv)}}
	if initialEventsEnd {
		empty.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	empty.APIVersion, empty.Kind = r.typeMeta(k)
	if !r.protobuf() {
		return json.Marshal(empty)
	}
	raw, err := empty.Marshal()
	return appendEnvelope(nil, empty.APIVersion, empty.Kind, raw), err
}
