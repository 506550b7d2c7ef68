package codec

import (
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/guest"
)

// Codec turns objects into payloads and back. It is safe for concurrent use.
//
// For returns one of the codecs of this package. They preserve unstructured objects exactly. A decoded typed object
// equals the encoded object by apiequality.Semantic. Differences that protobuf or JSON do not carry, such as between a
// nil and an empty slice, may be lost.
type Codec interface {
	// Name names the encoding: "protobuf" or "msgpack".
	Name() string
	// Fingerprint changes whenever an object written by an older build may have lost fields that this build knows (see
	// Attributes.Schema). For payloads that are stored as an API server sent them see SentFingerprint.
	Fingerprint() string
	// Append encodes obj at the end of dst and returns the extended slice. Equal objects give equal bytes. On error it
	// returns dst.
	Append(dst []byte, obj runtime.Object) ([]byte, error)
	// Decode returns a new object that shares no memory with data. Its error wraps ErrDamaged if Append cannot have
	// written data, and ErrIncompatible if data no longer fits the type.
	Decode(data []byte) (runtime.Object, error)
	// Check returns an error that names the type if obj has another type than the codec's.
	Check(obj runtime.Object) error
}

// The names of the encodings.
const (
	EncodingProtobuf = "protobuf"
	EncodingMsgpack  = "msgpack"
)

// For returns the codec for objects of the type of example: msgpack for *unstructured.Unstructured, protobuf for types
// that generate it (those of k8s.io/api, and *metav1.PartialObjectMetadata), and msgpack for all others. Lists have no
// codec: a collection holds their items.
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

// objectType returns the struct type that example points to.
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

// checkType returns an error unless obj is a non-nil pointer to a struct of type want.
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

// encodingDecoder is a codec that reads encodings other than its own.
type encodingDecoder interface {
	decodeEncoding(encoding string, data []byte) (runtime.Object, error)
}

// Decode decodes a payload with c, even if another codec of the same representation wrote it: a type may gain or lose
// generated protobuf from one build to the next. encoding is the encoding in the record's header. A panic, of c or of a
// method of the Go type, is an error that wraps entry.ErrIncompatible.
func Decode(c Codec, encoding string, data []byte) (obj runtime.Object, err error) {
	err = guest.Try("the codec", func() (err error) {
		obj, err = decode(c, encoding, data)
		return err
	})
	if guest.Panicked(err) && !errors.Is(err, entry.ErrIncompatible) {
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
