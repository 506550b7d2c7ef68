package codec

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

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
