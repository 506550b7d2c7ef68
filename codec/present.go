package codec

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// presence knows which fields of a message, and of those in it, are always sent: strings, numbers and structs that JSON
// has even if they are empty. One that is missing is unknown to the server, which is older than the Go type: its JSON
// would not have it either.
type presence struct {
	fields map[protowire.Number]presentField
	always []presentField // that are always sent
}

type presentField struct {
	number protowire.Number
	name   string // in JSON; "" if its fields are those of the object that it is in
	inner  *presence
	list   bool
	keyed  bool // a map
}

// presences has the *presence of Go types, which are few.
var presences sync.Map

// presenceOf returns that of a struct type; nil if every field that is missing in a message is missing in JSON too.
func presenceOf(t reflect.Type) *presence {
	if p, ok := presences.Load(t); ok {
		return p.(*presence)
	}
	p := newPresence(t, nil)
	presences.Store(t, p)
	return p
}

// newPresence is presenceOf within the types that are being looked at. A type in itself, as a JSON schema is, is not
// looked at again.
func newPresence(t reflect.Type, within []reflect.Type) *presence {
	if slices.Contains(within, t) {
		return nil
	}
	p := &presence{fields: map[protowire.Number]presentField{}}
	for i := range t.NumField() {
		f := t.Field(i)
		number := protobufNumber(f)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if number == 0 || name == "-" {
			continue
		}
		field, of := presentField{number: number, name: name}, f.Type
		sent := alwaysSent(of, options)
		switch of.Kind() {
		case reflect.Slice:
			field.list, of = true, of.Elem()
		case reflect.Map:
			field.keyed, of = true, of.Elem()
		}
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() == reflect.Struct && !marshalsItself(of) {
			field.inner = newPresence(of, append(within, t))
		}
		if sent && name != "" {
			p.always = append(p.always, field)
		}
		if sent || field.inner != nil {
			p.fields[number] = field
		}
	}
	if len(p.fields) == 0 {
		return nil
	}
	return p
}

// alwaysSent reports whether both protobuf and JSON have a field of the type whatever its value is. options are those of
// its JSON: omitempty does nothing to a struct.
func alwaysSent(t reflect.Type, options string) bool {
	switch t.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer, reflect.Interface:
		return false
	case reflect.Struct:
		return !strings.Contains(options, "omitzero")
	}
	return !strings.Contains(options, "omit")
}

// prune removes from m, the unstructured form of a message, what the message does not have. It leaves what it cannot
// read as it is.
func (p *presence) prune(msg []byte, m map[string]any) {
	if p == nil || m == nil {
		return
	}
	seen := make([]protowire.Number, 0, 16)
	var elements map[protowire.Number]int // of each list so far
	for len(msg) > 0 {
		number, value, rest, ok := cutField(msg)
		if !ok {
			return
		}
		msg = rest
		f, known := p.fields[number]
		if !known {
			continue
		}
		if !f.list {
			seen = append(seen, number)
		} else if elements == nil {
			elements = map[protowire.Number]int{}
		}
		f.enter(value, m, elements[number])
		if f.list {
			elements[number]++
		}
	}
	for _, f := range p.always {
		if !slices.Contains(seen, f.number) {
			delete(m, f.name)
		}
	}
}

// enter prunes the value of a field; n is how many of the same field came before.
func (f presentField) enter(value []byte, m map[string]any, n int) {
	switch {
	case f.inner == nil:
	case f.name == "":
		f.inner.prune(value, m)
	case f.list:
		if list, ok := m[f.name].([]any); ok && n < len(list) {
			inner, _ := list[n].(map[string]any)
			f.inner.prune(value, inner)
		}
	case f.keyed:
		key, ok := onlyField(value, protoMapKey)
		content, ok2 := onlyField(value, protoMapValue)
		if all, isMap := m[f.name].(map[string]any); ok && ok2 && isMap {
			inner, _ := all[string(key)].(map[string]any)
			f.inner.prune(content, inner)
		}
	default:
		inner, _ := m[f.name].(map[string]any)
		f.inner.prune(value, inner)
	}
}
