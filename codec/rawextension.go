package codec

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
)

// A runtime.RawExtension holds an object as bytes, as it came from the server, or decoded. The generated protobuf
// methods write only the bytes, and silently lose a decoded object. So objects of the few types that can hold one (ten
// in k8s.io/api) are checked before they are written.

// holdsRawExtension reports whether a value of type t can hold a runtime.RawExtension.
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

// checkRawExtensions returns an error that names the field if a RawExtension
// in v holds a decoded object and no bytes.
func checkRawExtensions(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return checkRawExtensions(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return nil
		}
		for i := range v.Len() {
			if err := checkRawExtensions(v.Index(i)); err != nil {
				return atField(err, fmt.Sprintf("[%d]", i))
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if err := checkRawExtensions(it.Value()); err != nil {
				return err
			}
		}
	case reflect.Struct:
		return checkRawExtensionFields(v)
	}
	return nil
}

func checkRawExtensionFields(v reflect.Value) error {
	t := v.Type()
	if t == reflect.TypeFor[runtime.RawExtension]() {
		if len(v.FieldByName("Raw").Bytes()) == 0 && !v.FieldByName("Object").IsNil() {
			return errDecodedExtension
		}
		return nil
	}
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			continue
		}
		if err := checkRawExtensions(v.Field(i)); err != nil {
			return atField(err, "."+t.Field(i).Name)
		}
	}
	return nil
}
