package codec

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/larder-dev/larder/internal/msgpack"
)

// What decoding takes at most, in bytes: for an object or message (a Go struct of Kubernetes has up to a kilobyte), for
// another value, and for an object in JSON that stays a map.
const (
	weighsObject = 1 << 10
	weighsValue  = 128
	weighsMap    = 128
)

// mostNested is how deep the messages in a payload are counted. Kubernetes' types nest half as deep.
const mostNested = 32

// Weight estimates the memory that decoding a payload takes, in bytes, without decoding it and for any Go type: a
// payload of some bytes an element can take five hundred times its size. It is 0 for an unknown encoding, which is not
// decoded.
func Weight(encoding string, payload []byte) int64 {
	switch {
	case encoding == EncodingProtobuf:
		for range 2 { // apiVersion and kind
			_, n := protowire.ConsumeBytes(payload)
			if n < 0 {
				return 0 // malformed
			}
			payload = payload[n:]
		}
		w, _ := messageWeight(payload, mostNested)
		return w
	case encoding == EncodingMsgpack && isTypedPayload(payload):
		return JSONWeight(payload)
	case encoding == EncodingMsgpack:
		return mapWeight(payload)
	}
	return 0
}

// JSONWeight is Weight for a text in JSON that is decoded into Go types.
func JSONWeight(text []byte) int64 { return jsonWeight(text, weighsObject, weighsValue) }

func jsonWeight(text []byte, object, value int64) (w int64) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			w += object
		case c == ',' || c == ':' || c == '[':
			w += value
		}
	}
	return w + int64(len(text))
}

func mapWeight(payload []byte) (w int64) {
	r := msgpack.NewReader(payload)
	for left := 1; left > 0; left-- {
		c, ok := r.Peek()
		switch {
		case !ok || r.Err != nil:
			return w
		case r.IsMap():
			w += weighsObject
			left += 2 * r.MapLen()
		case c >= msgpack.TypeFixArray && c < msgpack.TypeFixText || c == msgpack.TypeArray16 || c == msgpack.TypeArray32:
			w += weighsValue
			left += r.ArrayLen()
		default:
			w += weighsValue
			r.Skip(1)
		}
	}
	return w + int64(len(payload))
}

// messageWeight returns the weight of a message. whole is false if the bytes are no message.
func messageWeight(msg []byte, deeper int) (w int64, whole bool) {
	w = weighsObject
	for len(msg) > 0 {
		_, wire, encoded, rest, ok := cutEncoded(msg)
		if !ok {
			return 0, false
		}
		msg = rest
		w += weighsValue
		if value, ok := content(wire, encoded); ok {
			w += valueWeight(value, deeper)
		}
	}
	return w, true
}

// valueWeight returns the weight of bytes, which may be a text, a message or JSON.
func valueWeight(value []byte, deeper int) int64 {
	if deeper > 0 {
		if w, whole := messageWeight(value, deeper-1); whole {
			return w
		}
	}
	if len(value) > 0 && (value[0] == '{' || value[0] == '[') { // such as a FieldsV1
		return jsonWeight(value, weighsMap, weighsMap/4)
	}
	return int64(len(value))
}
