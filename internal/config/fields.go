package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/larder-dev/larder/entry"
)

type reader struct {
	file   string
	errors field.ErrorList
}

func (r *reader) config(d *document) *Config {
	c := &Config{
		File: r.file, PersistSecrets: d.PersistSecrets, Ready: ReadyDisk,
		Store:      r.beside(r.text(field.NewPath("store"), d.Store)),
		Kubeconfig: r.beside(r.text(field.NewPath("kubeconfig"), d.Kubeconfig)),
		Context:    r.text(field.NewPath("context"), d.Context),
	}
	r.oneOf(field.NewPath("apiVersion"), &d.APIVersion, APIVersion)
	r.oneOf(field.NewPath("kind"), &d.Kind, Kind)
	if d.MaxSize != nil {
		c.MaxSize = parse(r, field.NewPath("maxSize"), (*string)(d.MaxSize), Size)
	}
	if len(d.Resources) == 0 {
		r.require(field.NewPath("resources"), "what to mirror, as in resources: [{name: pods}]")
	}
	for i, res := range d.Resources {
		c.Resources = append(c.Resources, r.resource(field.NewPath("resources").Index(i), res))
	}
	c.Encryption = r.encryption(field.NewPath("encryption"), d.Encryption)
	c.Changes = max(0, parse(r, field.NewPath("retention", "changes"), d.Retention.Changes, Age))
	c.Listen = parse(r, field.NewPath("listen"), d.Listen, Address)
	if d.Ready != nil {
		c.Ready = Ready(r.oneOf(field.NewPath("ready"), d.Ready, string(ReadyDisk), string(ReadyResumed)))
	}
	c.Schemas = d.Schemas == nil || *d.Schemas
	return c
}

func (r *reader) resource(at *field.Path, d resourceDocument) Resource {
	res := Resource{Name: d.Name, Representation: entry.Unstructured}
	switch {
	case strings.TrimSpace(d.Name) == "":
		r.require(at.Child("name"), "the resource, as in name: pods")
	case strings.ContainsAny(d.Name, ", \t/"):
		r.fail(at.Child("name"), d.Name, errors.New("one element names one resource, such as pods or deployments.apps"))
	}
	res.Namespaces = r.list(at.Child("namespaces"), d.Namespaces)
	for i, name := range res.Namespaces {
		at := at.Child("namespaces").Index(i)
		if wrong := validation.ValidateNamespaceName(name, false); len(wrong) > 0 {
			r.fail(at, name, errors.New(strings.Join(wrong, "; ")))
		}
		if slices.Contains(res.Namespaces[:i], name) {
			r.errors = append(r.errors, field.Duplicate(at, name))
		}
	}
	res.LabelSelector = parse(r, at.Child("labelSelector"), d.LabelSelector, func(s string) (string, error) {
		return selector(s, func(s string) error { _, err := labels.Parse(s); return err })
	})
	res.FieldSelector = parse(r, at.Child("fieldSelector"), d.FieldSelector, func(s string) (string, error) {
		return selector(s, func(s string) error { _, err := fields.ParseSelector(s); return err })
	})
	if d.Representation != nil && r.oneOf(at.Child("representation"), d.Representation, "full", "metadata") == "metadata" {
		res.Representation = entry.Metadata
	}
	return res
}

func (r *reader) encryption(at *field.Path, d *encryptionDocument) *Encryption {
	if d == nil {
		return nil
	}
	if (d.KeyFile == nil) == (d.KeyEnv == nil) {
		r.require(at, "either keyFile or keyEnv: where the key is")
	}
	e := &Encryption{
		KeyFile: r.beside(r.text(at.Child("keyFile"), d.KeyFile)), KeyEnv: r.text(at.Child("keyEnv"), d.KeyEnv),
		Resources: []string{"secrets"},
	}
	if d.Resources != nil {
		e.Resources, e.Named = r.list(at.Child("resources"), d.Resources), true
	}
	return e
}

// text returns an optional string field of the configuration; "" if the field is missing. A field with an empty string
// is an error.
func (r *reader) text(at *field.Path, s *string) string {
	if s == nil {
		return ""
	}
	if strings.TrimSpace(*s) == "" {
		r.require(at, "leave it out instead")
	}
	return *s
}

// list returns an optional list field of the configuration. An empty list and empty elements are errors.
func (r *reader) list(at *field.Path, all *[]string) []string {
	if all == nil {
		return nil
	}
	if len(*all) == 0 {
		r.require(at, "leave it out instead")
	}
	for i := range *all {
		r.text(at.Index(i), &(*all)[i])
	}
	return *all
}

// oneOf returns a field of the configuration that must have one of the allowed values. A missing field is an error.
func (r *reader) oneOf(at *field.Path, s *string, allowed ...string) string {
	switch {
	case *s == "":
		r.require(at, strings.Join(allowed, " or "))
	case !slices.Contains(allowed, *s):
		r.errors = append(r.errors, field.NotSupported(at, *s, allowed))
	}
	return *s
}

// parse returns the value that f parses from a field of the configuration; the zero value if the field is missing or
// invalid.
func parse[T string | int64 | time.Duration](r *reader, at *field.Path, s *string, f func(string) (T, error)) (v T) {
	if text := r.text(at, s); text != "" {
		var err error
		if v, err = f(text); err != nil {
			r.fail(at, text, err)
		}
	}
	return v
}

func (r *reader) require(at *field.Path, what string) {
	r.errors = append(r.errors, field.Required(at, what))
}

func (r *reader) fail(at *field.Path, value string, err error) {
	r.errors = append(r.errors, field.Invalid(at, value, err.Error()))
}

// beside resolves a relative path against the directory of the configuration file.
func (r *reader) beside(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(r.file), path)
}

// selector replaces $(NAME) in a selector by the environment variable NAME. It fails if check rejects the result.
func selector(s string, check func(string) error) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "$(")
		b.WriteString(before)
		if !found {
			return b.String(), check(b.String())
		}
		name, after, closed := strings.Cut(rest, ")")
		if !closed {
			return "", errors.New("$( has no )")
		}
		value := os.Getenv(name)
		if value == "" {
			return "", fmt.Errorf("the environment variable %s is not set", name)
		}
		b.WriteString(value)
		s = after
	}
}
