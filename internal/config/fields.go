package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/larder-dev/larder/entry"
)

// config reads the whole.
func (r *reader) config(root value, c *Config) {
	seen := r.mapping(root,
		field{"apiVersion", func(v value) { r.oneOf(v, APIVersion) }},
		field{"kind", func(v value) { r.oneOf(v, Kind) }},
		field{"store", r.path(&c.Store)},
		field{"maxSize", func(v value) { c.MaxSize = r.size(v) }},
		field{"resources", func(v value) {
			r.list(v, "resources", func(v value) { c.Resources = append(c.Resources, r.resource(v)) })
		}},
		field{"persistSecrets", r.boolean(&c.PersistSecrets)},
		field{"encryption", func(v value) { c.Encryption = r.encryption(v) }},
		field{"retention", func(v value) { r.retention(v, &c.Retention) }},
		field{"listen", func(v value) { c.Listen = r.address(v) }},
		field{"ready", func(v value) {
			if s, ok := r.oneOf(v, string(ReadyDisk), string(ReadyResumed)); ok {
				c.Ready = Ready(s)
			}
		}},
		field{"kubeconfig", r.path(&c.Kubeconfig)},
		field{"context", r.into(&c.Context)},
	)
	if root.Kind != yaml.MappingNode {
		return
	}
	for _, required := range []struct{ name, is string }{{"apiVersion", APIVersion}, {"kind", Kind}} {
		if !seen[required.name] {
			r.fail(root, "%s is required: %s", required.name, required.is)
		}
	}
	if !seen["resources"] {
		r.fail(root, "resources is required: a list of what to mirror, as in resources: [{name: pods}]")
	}
	slices.SortStableFunc(r.errors, func(a, b *Error) int { return a.Line - b.Line })
}

// resource reads an element of resources.
func (r *reader) resource(v value) Resource {
	res := Resource{Representation: entry.Unstructured, Line: v.Line}
	seen := r.mapping(v,
		field{"name", func(v value) {
			name, ok := r.text(v)
			if ok && strings.ContainsAny(name, ", \t/") {
				r.fail(v, "%q is no resource's name; one element names one, such as pods or deployments.apps", name)
			}
			res.Name = name
		}},
		field{"namespaces", func(v value) {
			r.list(v, "namespaces", func(v value) { res.Namespaces = r.namespace(v, res.Namespaces) })
		}},
		field{"labelSelector", func(v value) {
			res.LabelSelector = r.selector(v, func(s string) error { _, err := labels.Parse(s); return err })
		}},
		field{"fieldSelector", func(v value) {
			res.FieldSelector = r.selector(v, func(s string) error { _, err := fields.ParseSelector(s); return err })
		}},
		field{"representation", func(v value) {
			if s, _ := r.oneOf(v, "full", "metadata"); s == "metadata" {
				res.Representation = entry.Metadata
			}
		}},
	)
	if v.Kind == yaml.MappingNode && !seen["name"] {
		r.fail(v, "name is required: the resource, as in name: pods")
	}
	return res
}

func (r *reader) namespace(v value, all []string) []string {
	name, ok := r.text(v)
	if !ok {
		return all
	}
	if wrong := validation.ValidateNamespaceName(name, false); len(wrong) > 0 {
		r.fail(v, "%q is no namespace's name: %s", name, strings.Join(wrong, "; "))
		return all
	}
	if slices.Contains(all, name) {
		r.fail(v, "the namespace %s is given twice", name)
		return all
	}
	return append(all, name)
}

// selector reads a selector, with environment variables put in.
func (r *reader) selector(v value, parse func(string) error) string {
	s, ok := r.text(v)
	if !ok {
		return ""
	}
	s, err := expand(s, r.lookup)
	if err != nil {
		r.fail(v, "%v", err)
		return ""
	}
	if err := parse(s); err != nil {
		r.fail(v, "it is no selector: %v", err)
		return ""
	}
	return s
}

// expand puts in environment variables for $(NAME).
func expand(s string, lookup func(string) (string, bool)) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "$(")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, after, closed := strings.Cut(rest, ")")
		if !closed {
			return "", errors.New("$( has no )")
		}
		set, ok := lookup(name)
		if !ok || set == "" {
			return "", fmt.Errorf("the environment variable %s: %w", name, errNotSet)
		}
		b.WriteString(set)
		s = after
	}
}

func (r *reader) path(to *string) func(value) {
	return func(v value) {
		s, _ := r.text(v)
		*to = r.beside(s)
	}
}

// size reads a number of bytes.
func (r *reader) size(v value) int64 {
	if tag := v.ShortTag(); v.Kind != yaml.ScalarNode || tag != "!!str" && tag != "!!int" {
		r.fail(v, "it must be a size such as 512Mi; it is %s", describe(v.Node))
		return 0
	}
	n, err := Size(v.Value)
	if err != nil {
		r.fail(v, "%v", err)
	}
	return n
}

func (r *reader) encryption(v value) *Encryption {
	e := &Encryption{Line: v.Line}
	seen := r.mapping(v,
		field{"keyFile", func(v value) { e.Line = v.Line; r.path(&e.KeyFile)(v) }},
		field{"keyEnv", func(v value) { e.Line = v.Line; r.into(&e.KeyEnv)(v) }},
		field{"resources", func(v value) {
			r.list(v, "resources", func(v value) {
				if s, ok := r.text(v); ok {
					e.Resources, e.Lines = append(e.Resources, s), append(e.Lines, v.Line)
				}
			})
		}},
	)
	if v.Kind == yaml.MappingNode && seen["keyFile"] == seen["keyEnv"] {
		r.fail(v, "either keyFile or keyEnv is required: where the key is")
	}
	if !seen["resources"] {
		e.Resources = []string{"secrets"}
	}
	return e
}

func (e *Encryption) equal(o *Encryption) bool {
	if e == nil || o == nil {
		return e == o
	}
	return e.KeyFile == o.KeyFile && e.KeyEnv == o.KeyEnv && slices.Equal(e.Resources, o.Resources)
}

func (r *reader) retention(v value, to *Retention) {
	r.mapping(v,
		field{"forgetAfter", func(v value) { to.ForgetAfter = r.age(v) }},
		field{"changes", func(v value) { to.Changes = max(0, r.age(v)) }},
	)
}

// age reads a time span, or never.
func (r *reader) age(v value) time.Duration {
	s, ok := r.text(v)
	if !ok {
		return 0
	}
	d, err := Age(s)
	if err != nil {
		r.fail(v, "%v", err)
	}
	return d
}

// address reads host:port. Without a host it is loopback: what listens further is to say so.
func (r *reader) address(v value) string {
	s, ok := r.text(v)
	if !ok {
		return ""
	}
	address, err := Address(s)
	if err != nil {
		r.fail(v, "%v", err)
	}
	return address
}
