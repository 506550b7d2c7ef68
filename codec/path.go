package codec

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// FieldPath is a path from a Go struct to a string, boolean or integer field.
type FieldPath struct {
	steps []fieldStep
	kind  reflect.Kind
}

type fieldStep struct {
	index    int              // index of the Go struct's field
	number   protowire.Number // field number in the protobuf message; 0 for none
	optional bool             // true for a pointer field
}

// NewFieldPath returns the FieldPath of a string, boolean or integer along JSON names in the Go type t, or nil.
func NewFieldPath(t reflect.Type, names []string) *FieldPath {
	p := &FieldPath{}
	for _, name := range names {
		if t = p.enter(t, name); t == nil {
			return nil
		}
	}
	switch p.kind = t.Kind(); p.kind {
	case reflect.String, reflect.Bool,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if !marshalsItself(t) {
			return p
		}
	}
	return nil
}

// enter appends to p the steps to the field with a JSON name in t, and returns the field's type.
func (p *FieldPath) enter(t reflect.Type, name string) reflect.Type {
	if t.Kind() != reflect.Struct || marshalsItself(t) {
		return nil
	}
	var inline []reflect.StructField
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tag == "-":
		case f.Anonymous && tag == "":
			inline = append(inline, f)
		case f.IsExported() && (tag == name || tag == "" && f.Name == name):
			return p.step(f)
		}
	}
	for _, f := range inline {
		before := p.steps
		if found := p.enter(p.step(f), name); found != nil {
			return found
		}
		p.steps = before
	}
	return nil
}

func (p *FieldPath) step(f reflect.StructField) reflect.Type {
	s := fieldStep{index: f.Index[0], number: protobufNumber(f)}
	t := f.Type
	if s.optional = t.Kind() == reflect.Pointer; s.optional {
		t = t.Elem()
	}
	p.steps = append(p.steps, s)
	return t
}

// protobufNumber returns the protobuf number of a Go field, or 0. It ignores "rep" in the tag, which the generator also
// writes for some strings, such as corev1.PodStatus.QOSClass.
func protobufNumber(f reflect.StructField) protowire.Number {
	tag := strings.Split(f.Tag.Get("protobuf"), ",")
	if len(tag) < 2 {
		return 0
	}
	n, err := strconv.ParseInt(tag[1], 10, 32)
	if err != nil || !protowire.Number(n).IsValid() {
		return 0
	}
	return protowire.Number(n)
}

// marshalsItself reports whether t has its own JSON method, so that its Go fields do not determine its JSON.
func marshalsItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]())
}

// Text returns the text of the field in the struct v, or "" if a pointer on the path is nil.
func (p *FieldPath) Text(v reflect.Value) string {
	for _, s := range p.steps {
		v = v.Field(s.index)
		if !s.optional {
			continue
		}
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch {
	case p.kind == reflect.String:
		return v.String()
	case p.kind == reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10)
	}
	return strconv.FormatUint(v.Uint(), 10)
}

// PlainText returns a value of an unstructured object as text, in the form of FieldPath.Text.
func PlainText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return ""
}
