package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reader walks a YAML tree and notes what is wrong with it.
type reader struct {
	file   string
	lookup func(name string) (string, bool)
	errors Errors
}

// value is a node with its path.
type value struct {
	*yaml.Node
	path string
}

func (r *reader) fail(at value, format string, args ...any) {
	e := &Error{File: r.file, Path: at.path, Problem: fmt.Sprintf(format, args...)}
	if at.Node != nil {
		e.Line, e.Column = at.Line, at.Column
	}
	r.errors = append(r.errors, e)
}

// document returns the root of the only document.
func (r *reader) document(data []byte) (value, bool) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	err := decoder.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		r.fail(value{}, "the file is empty; it begins with apiVersion: %s and kind: %s", APIVersion, Kind)
		return value{}, false
	case err != nil:
		r.noYAML(data, err)
		return value{}, false
	}
	switch err := decoder.Decode(&more); {
	case err == nil:
		r.fail(value{Node: &more}, "a second document begins here; the file has one")
		return value{}, false
	case !errors.Is(err, io.EOF):
		r.noYAML(data, err)
		return value{}, false
	}
	return value{Node: resolve(doc.Content[0])}, true
}

// resolve follows an alias.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// field is a field of a mapping and who reads it.
type field struct {
	name string
	read func(value)
}

// mapping reads the fields of a mapping, in its order, and returns the names of those that are there.
func (r *reader) mapping(v value, fields ...field) map[string]bool {
	seen := map[string]bool{}
	if v.Kind != yaml.MappingNode {
		r.fail(v, "it must have fields: %s; it is %s", names(fields), describe(v.Node))
		return seen
	}
	for i := 0; i+1 < len(v.Content); i += 2 {
		key := value{v.Content[i], join(v.path, v.Content[i].Value)}
		at := slices.IndexFunc(fields, func(f field) bool { return key.Kind == yaml.ScalarNode && f.name == key.Value })
		switch {
		case at < 0 && key.Kind != yaml.ScalarNode:
			r.fail(value{key.Node, v.path}, "a field's name must be a word; allowed are %s", names(fields))
		case at < 0:
			r.fail(key, "unknown field; allowed are %s", names(fields))
		case seen[key.Value]:
			r.fail(key, "this field is given twice")
		default:
			seen[key.Value] = true
			fields[at].read(value{resolve(v.Content[i+1]), key.path})
		}
	}
	return seen
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func names(fields []field) string {
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = f.name
	}
	return strings.Join(all, ", ")
}

// describe says what a node is, for one that is something else than it should be. It does not show the content.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind != yaml.ScalarNode:
		return "something else"
	}
	switch n.ShortTag() {
	case "!!null":
		return "empty"
	case "!!bool":
		return "true or false"
	case "!!int", "!!float":
		return "a number"
	case "!!str":
		return "text"
	}
	return "of type " + n.ShortTag()
}

// list reads the elements of a list, of which there must be at least one.
func (r *reader) list(v value, what string, read func(value)) {
	if v.Kind != yaml.SequenceNode || len(v.Content) == 0 {
		is := describe(v.Node)
		if v.Kind == yaml.SequenceNode {
			is = "empty"
		}
		r.fail(v, "it must be a list of %s; it is %s", what, is)
		return
	}
	for i, n := range v.Content {
		read(value{resolve(n), fmt.Sprintf("%s[%d]", v.path, i)})
	}
}

// text returns a field that must be text, and not empty.
func (r *reader) text(v value) (string, bool) {
	if v.Kind != yaml.ScalarNode || v.ShortTag() != "!!str" || strings.TrimSpace(v.Value) == "" {
		is := describe(v.Node)
		switch is {
		case "text":
			is = "empty"
		case "a number", "true or false":
			is += "; put it in quotes if it is meant"
		}
		r.fail(v, "it must be text; it is %s", is)
		return "", false
	}
	return v.Value, true
}

// into reads text.
func (r *reader) into(to *string) func(value) {
	return func(v value) { *to, _ = r.text(v) }
}

// boolean reads true or false.
func (r *reader) boolean(to *bool) func(value) {
	return func(v value) {
		if v.Kind != yaml.ScalarNode || v.ShortTag() != "!!bool" {
			r.fail(v, "it must be true or false; it is %s", describe(v.Node))
			return
		}
		*to = strings.EqualFold(v.Value, "true")
	}
}

// oneOf returns text that must be one of a few.
func (r *reader) oneOf(v value, allowed ...string) (string, bool) {
	s, ok := r.text(v)
	if ok && !slices.Contains(allowed, s) {
		r.fail(v, "unknown value %q; allowed are %s", s, strings.Join(allowed, ", "))
		return "", false
	}
	return s, ok
}
