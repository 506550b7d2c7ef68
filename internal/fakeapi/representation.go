package fakeapi

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

func negotiate(accept string, k *kind) (representation, error) {
	if accept == "" {
		return asJSON, nil
	}
	for clause := range strings.SplitSeq(accept, ",") {
		mediaType, params, err := mime.ParseMediaType(strings.TrimSpace(clause))
		if err != nil {
			continue
		}
		metadata := false
		switch as := params["as"]; as {
		case "":
		case partialKind, partialKind + "List":
			if params["g"] != metav1.GroupName || params["v"] != "v1" {
				continue
			}
			metadata = true
		default:
			continue
		}
		if r, ok := pick(mediaType, metadata, k); ok {
			return r, nil
		}
	}
	return 0, newStatus(http.StatusNotAcceptable,
		"only the following media types are accepted: "+contentJSON+", "+contentProtobuf)
}

func pick(mediaType string, metadata bool, k *kind) (representation, bool) {
	switch mediaType {
	case contentJSON, "*/*", "application/*":
		if metadata && !k.AsWritten {
			return asMetadataJSON, true
		}
		return asJSON, true
	case contentProtobuf:
		if metadata && !k.AsWritten {
			return asMetadataProtobuf, true
		}
		return asProtobuf, !k.custom()
	}
	return 0, false
}

func (r representation) contentType() string {
	if r.protobuf() {
		return contentProtobuf
	}
	return contentJSON
}

func (r representation) streamType() string {
	if r.protobuf() {
		return contentProtobuf + ";stream=watch"
	}
	return contentJSON
}

// Lists and watch events are assembled by hand from encoded objects, so that a list of 100,000 objects is never
// decoded.

// protobufMagic is the prefix of every Kubernetes protobuf message that is not nested in another message.
const protobufMagic = "k8s\x00"

const wireBytes = 2

func appendField(dst []byte, field int, value []byte) []byte {
	dst = appendFieldHeader(dst, field, len(value))
	return append(dst, value...)
}

func appendFieldHeader(dst []byte, field, length int) []byte {
	dst = binary.AppendUvarint(dst, uint64(field)<<3|wireBytes)
	return binary.AppendUvarint(dst, uint64(length))
}

// appendEnvelope appends the encoded object raw as a runtime.Unknown message, after protobufMagic.
func appendEnvelope(dst []byte, apiVersion, kindName string, raw []byte) []byte {
	dst = appendEnvelopeHeader(dst, apiVersion, kindName, len(raw))
	return append(dst, raw...)
}

// appendEnvelopeHeader appends the part of the envelope (runtime.Unknown) that precedes the encoded object.
func appendEnvelopeHeader(dst []byte, apiVersion, kindName string, length int) []byte {
	dst = append(dst, protobufMagic...)
	typeMeta := appendField(nil, 1, []byte(apiVersion))
	typeMeta = appendField(typeMeta, 2, []byte(kindName))
	dst = appendField(dst, 1, typeMeta)
	return appendFieldHeader(dst, 2, length)
}

// appendWatchFrame appends a metav1.WatchEvent, preceded by the event's length.
func appendWatchFrame(dst []byte, eventType string, object []byte) []byte {
	event := metav1.WatchEvent{Type: eventType, Object: runtime.RawExtension{Raw: object}}
	// Marshalling a struct of a string and bytes cannot fail.
	body, _ := event.Marshal()
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(body)))
	return append(dst, body...)
}
