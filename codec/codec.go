package codec

import (
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
)

// Codec turns objects into payloads and back. It is safe for concurrent use.
//
// For returns one of the codecs of this package. They preserve unstructured objects exactly. A decoded typed object
// equals the encoded object by apiequality.Semantic. Differences that protobuf or JSON do not carry, such as between a
// nil and an empty slice, may be lost.
type Codec interface {
	// Name is the encoding of the codec's payloads: "protobuf" or "msgpack".
	Name() string
	// Fingerprint changes whenever objects that an older build wrote may lack fields that this build knows. A changed
	// fingerprint causes a relist (entry.Attributes.Schema). SentFingerprint is for payloads that an API server encoded.
	Fingerprint() string
	// Append appends the encoded obj to dst, or returns dst with an error. Equal objects give equal bytes.
	Append(dst []byte, obj runtime.Object) ([]byte, error)
	// Decode returns a new object that shares no memory with data. The error wraps ErrDamaged if Append cannot have
	// written data, and ErrIncompatible if data no longer fits the Go type.
	Decode(data []byte) (runtime.Object, error)
	// Check returns an error unless obj has the codec's Go type. The error names the type of obj.
	Check(obj runtime.Object) error
}

// Encodings of payloads, as Codec.Name returns them.
const (
	EncodingProtobuf = "protobuf"
	EncodingMsgpack  = "msgpack"
)

// For returns the codec for objects of the type of example: protobuf for types that generate it (those of k8s.io/api,
// and *metav1.PartialObjectMetadata), and msgpack for all others. Lists have no codec: a collection holds their items.
func For(example runtime.Object) (Codec, error) {
	if _, ok := example.(*unstructured.Unstructured); ok {
		return Unstructured(), nil
	}
	t, err := objectType(example)
	if err != nil {
		return nil, err
	}
	if generatesProtobuf(t) {
		return newProtobufCodec(t), nil
	}
	return newMsgpackCodec(t), nil
}

// ForMsgpack returns the msgpack codec for the type of example.
func ForMsgpack(example runtime.Object) (Codec, error) {
	if _, ok := example.(*unstructured.Unstructured); ok {
		return Unstructured(), nil
	}
	t, err := objectType(example)
	if err != nil {
		return nil, err
	}
	return newMsgpackCodec(t), nil
}

func objectType(example runtime.Object) (reflect.Type, error) {
	if example == nil {
		return nil, errors.New("no example object to choose a codec for")
	}
	t := reflect.TypeOf(example)
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s is not a pointer to a struct: no codec", t)
	}
	if _, ok := example.(runtime.Unstructured); ok || meta.IsListType(example) {
		return nil, fmt.Errorf("%s is a list, or an unstructured type other than *unstructured.Unstructured: no codec", t)
	}
	return t.Elem(), nil
}

func checkType(obj runtime.Object, want reflect.Type) error {
	v := reflect.ValueOf(obj)
	if !v.IsValid() || v.Type() != reflect.PointerTo(want) {
		return fmt.Errorf("object is a %T, the collection holds *%s", obj, want)
	}
	if v.IsNil() {
		return fmt.Errorf("object is a nil *%s", want)
	}
	return nil
}

// encodingDecoder is a Codec that also decodes other encodings than its own.
type encodingDecoder interface {
	decodeEncoding(encoding string, data []byte) (runtime.Object, error)
}

// Decode decodes a payload with c. encoding is the encoding in the record's header. It may be the encoding of another
// codec for the same Go type, because a type may gain or lose generated protobuf from one build to the next. A panic of
// c, or of a method of the Go type, becomes an error that wraps entry.ErrIncompatible.
func Decode(c Codec, encoding string, data []byte) (obj runtime.Object, err error) {
	err = base.Try("the codec", func() (err error) {
		obj, err = decode(c, encoding, data)
		return err
	})
	if base.Panicked(err) && !errors.Is(err, entry.ErrIncompatible) {
		err = fmt.Errorf("%w: %w", err, entry.ErrIncompatible)
	}
	return obj, err
}

func decode(c Codec, encoding string, data []byte) (runtime.Object, error) {
	if encoding == c.Name() {
		return c.Decode(data)
	}
	if d, ok := c.(encodingDecoder); ok {
		return d.decodeEncoding(encoding, data)
	}
	return nil, unknownEncoding(encoding, c)
}

func unknownEncoding(encoding string, c Codec) error {
	return fmt.Errorf("payload in encoding %q, the codec reads %q: %w", encoding, c.Name(), entry.ErrIncompatible)
}
