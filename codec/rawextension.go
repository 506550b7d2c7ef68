package codec

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
)

// A runtime.RawExtension holds an object either as the server's bytes, or decoded. Generated protobuf methods write
// only the bytes, and silently lose a decoded object. So protobufCodec checks objects of the few types that can hold a
// RawExtension (ten in k8s.io/api).

func holdsRawExtension(t reflect.Type) bool {
	return searchRawExtension(t, map[reflect.Type]bool{})
}

func searchRawExtension(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == reflect.TypeFor[runtime.RawExtension]() {
		return true
	}
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return searchRawExtension(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if searchRawExtension(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}

// holdsDecodedExtension reports whether a RawExtension in v holds a decoded object and no bytes.
func holdsDecodedExtension(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && holdsDecodedExtension(v.Elem())
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return false
		}
		for i := range v.Len() {
			if holdsDecodedExtension(v.Index(i)) {
				return true
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if holdsDecodedExtension(it.Value()) {
				return true
			}
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[runtime.RawExtension]() {
			return v.FieldByName("Raw").Len() == 0 && !v.FieldByName("Object").IsNil()
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && holdsDecodedExtension(v.Field(i)) {
				return true
			}
		}
	}
	return false
}
