package codec

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/larder-dev/larder/internal/msgpack"
)

// Upper estimates of decoded memory, in bytes. objectCost is for an object or message, since a Go struct of Kubernetes
// has up to a kilobyte. mapCost is for a JSON object that stays a map, and valueCost for any other value.
const (
	objectCost = 1 << 10
	valueCost  = 128
	mapCost    = 128
)

// mostNested is the depth to which Weight visits nested messages. Kubernetes' types nest half as deep.
const mostNested = 32

// Weight estimates the memory that decoding a payload takes, in bytes, without decoding it and for any Go type. Many
// elements of a few bytes can take five hundred times the payload's size. Weight returns 0 for an unknown encoding,
// which is never decoded.
func Weight(encoding string, payload []byte) int64 {
	switch {
	case encoding == EncodingProtobuf:
		for range 2 { // The payload starts with apiVersion and kind.
			_, n := protowire.ConsumeBytes(payload)
			if n < 0 {
				return 0
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

// JSONWeight estimates the memory that decoding JSON into Go types takes, in bytes.
func JSONWeight(text []byte) int64 { return jsonWeight(text, objectCost, valueCost) }

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
			w += objectCost
			left += 2 * r.MapLen()
		case c >= msgpack.TypeFixArray && c < msgpack.TypeFixText || c == msgpack.TypeArray16 || c == msgpack.TypeArray32:
			w += valueCost
			left += r.ArrayLen()
		default:
			w += valueCost
			r.Skip(1)
		}
	}
	return w + int64(len(payload))
}

// messageWeight estimates the memory that decoding a protobuf message takes. whole is false if msg is not a message.
// deeper bounds the nesting of messages that are visited.
func messageWeight(msg []byte, deeper int) (w int64, whole bool) {
	w = objectCost
	for len(msg) > 0 {
		_, wire, encoded, rest, ok := cutEncoded(msg)
		if !ok {
			return 0, false
		}
		msg = rest
		w += valueCost
		if value, ok := content(wire, encoded); ok {
			w += valueWeight(value, deeper)
		}
	}
	return w, true
}

// valueWeight estimates the memory of a decoded field, whose bytes may be text, a message or JSON.
func valueWeight(value []byte, deeper int) int64 {
	if deeper > 0 {
		if w, whole := messageWeight(value, deeper-1); whole {
			return w
		}
	}
	if len(value) > 0 && (value[0] == '{' || value[0] == '[') { // Raw JSON is a field such as a FieldsV1.
		return jsonWeight(value, mapCost, mapCost/4)
	}
	return int64(len(value))
}
