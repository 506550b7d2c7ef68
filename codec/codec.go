package codec

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

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

// SentFingerprint returns the fingerprint of payloads that are stored as an API server sent them. It depends on the
// form of payloads, and on no Go type.
func SentFingerprint(c Codec) string {
	switch c.(type) {
	case *protobufCodec, *msgpackCodec:
		return fmt.Sprintf("%s%d-%d", sentPrefix, protobufVersion, msgpackVersion)
	}
	return c.Fingerprint()
}

const sentPrefix = "sent-"

// AsSent reports whether a fingerprint is the SentFingerprint of typed objects.
func AsSent(fingerprint string) bool { return strings.HasPrefix(fingerprint, sentPrefix) }

// typeFingerprint returns a hash of the names, types, json and protobuf tags of all exported fields of t, recursively.
// The order of the fields and a type's package do not count. The name of a type counts if the type has its own JSON
// methods.
func typeFingerprint(encoding string, version int, t reflect.Type) string {
	d := typeDescriber{seen: map[reflect.Type]int{}}
	fmt.Fprintf(&d.out, "%s %d ", encoding, version)
	d.describe(t)
	sum := sha256.Sum256([]byte(d.out.String()))
	return hex.EncodeToString(sum[:10])
}

type typeDescriber struct {
	out strings.Builder
	// seen numbers the struct types in the order of their first visit. A recursive type is described by its number.
	seen map[reflect.Type]int
}

func (d *typeDescriber) describe(t reflect.Type) {
	if hasJSONMethods(t) {
		fmt.Fprintf(&d.out, "(%s)", t)
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		d.out.WriteString(t.Kind().String() + " ")
		d.describe(t.Elem())
	case reflect.Array:
		fmt.Fprintf(&d.out, "array %d ", t.Len())
		d.describe(t.Elem())
	case reflect.Map:
		d.out.WriteString("map ")
		d.describe(t.Key())
		d.describe(t.Elem())
	case reflect.Struct:
		d.describeStruct(t)
	default:
		d.out.WriteString(t.Kind().String() + " ")
	}
}

func (d *typeDescriber) describeStruct(t reflect.Type) {
	if n, ok := d.seen[t]; ok {
		fmt.Fprintf(&d.out, "struct#%d ", n)
		return
	}
	d.seen[t] = len(d.seen)
	fields := make([]reflect.StructField, 0, t.NumField())
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() || f.Anonymous {
			fields = append(fields, f)
		}
	}
	slices.SortFunc(fields, func(a, b reflect.StructField) int { return cmp.Compare(a.Name, b.Name) })
	d.out.WriteString("struct { ")
	for _, f := range fields {
		fmt.Fprintf(&d.out, "%s %q %q ", f.Name, f.Tag.Get("json"), f.Tag.Get("protobuf"))
		d.describe(f.Type)
	}
	d.out.WriteString("} ")
}

func hasJSONMethods(t reflect.Type) bool {
	marshaler := reflect.TypeFor[json.Marshaler]()
	return t.Kind() != reflect.Pointer && (t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler))
}
