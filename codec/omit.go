package codec

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/larder-dev/larder/internal/msgpack"
)

// protoManagedFields is the field number of managedFields in a metav1.ObjectMeta message.
const protoManagedFields = 17

// OmitManagedFields returns a payload without metadata.managedFields. Decoding them takes two fifths of an object's
// decoding time, and few printers show them. c must be a codec of View. Typed objects in JSON and malformed payloads
// are returned unchanged.
func OmitManagedFields(c Codec, encoding string, payload []byte) []byte {
	v, ok := c.(*viewCodec)
	switch {
	case !ok:
	case encoding == EncodingMsgpack && !isTypedPayload(payload):
		return omitFromMap(payload)
	case encoding == EncodingProtobuf:
		typed, ok := v.typed.(*protobufCodec)
		_, _, msg, whole := cutMessage(payload)
		if !ok || !whole || typed.metadata == 0 {
			break
		}
		out := append(make([]byte, 0, len(payload)), payload[:len(payload)-len(msg)]...)
		if out, ok = omitFromMessage(out, msg, typed.metadata); ok {
			return out
		}
	}
	return payload
}

func omitFromMap(payload []byte) []byte {
	r := msgpack.NewReader(payload)
	if !r.Enter("metadata") || !r.IsMap() {
		return payload
	}
	head := r.Pos
	members := r.MapLen()
	body := r.Pos
	for range members {
		start := r.Pos
		name := string(r.Bytes())
		r.Skip(1)
		if r.Err != nil {
			return payload
		}
		if name == "managedFields" {
			out := append(make([]byte, 0, len(payload)), payload[:head]...)
			out = msgpack.AppendMapLen(out, members-1)
			return append(append(out, payload[body:start]...), payload[r.Pos:]...)
		}
	}
	return payload
}

// omitFromMessage appends msg to out, without the managedFields in field metadata, or returns false if msg is
// malformed.
func omitFromMessage(out, msg []byte, metadata protowire.Number) ([]byte, bool) {
	for len(msg) > 0 {
		number, value, rest, ok := cutField(msg)
		switch {
		case !ok, number == metadata && value == nil:
			return nil, false
		case number == metadata:
			kept := make([]byte, 0, len(value))
			for len(value) > 0 {
				in, _, rest, ok := cutField(value)
				if !ok {
					return nil, false
				}
				if in != protoManagedFields {
					kept = append(kept, value[:len(value)-len(rest)]...)
				}
				value = rest
			}
			out = protowire.AppendBytes(protowire.AppendTag(out, number, protowire.BytesType), kept)
		default:
			out = append(out, msg[:len(msg)-len(rest)]...)
		}
		msg = rest
	}
	return out, true
}
