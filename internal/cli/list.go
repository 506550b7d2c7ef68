package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"
)

// printer prints objects one after the other; finish ends the output.
type printer interface {
	object(u *unstructured.Unstructured) error
	finish() error
}

// newPrinter returns the printer of a format. single is for one object that was
// asked for by name: JSON and YAML print it alone, not in a List.
func newPrinter(s IO, format string, single, withNamespace bool) printer {
	switch format {
	case "json":
		if single {
			return &singlePrinter{w: s.Out, marshal: marshalJSON}
		}
		return &listPrinter{w: s.Out, item: jsonItem, head: jsonHead, between: ",\n", tail: jsonTail, none: jsonNone}
	case "yaml":
		if single {
			return &singlePrinter{w: s.Out, marshal: marshalYAML}
		}
		return &listPrinter{w: s.Out, item: yamlItem, head: yamlHead, tail: yamlTail, none: yamlNone}
	case "name":
		return namePrinter{s.Out}
	}
	return &tablePrinter{s: s, withNamespace: withNamespace}
}

// tablePrinter prints nothing at all for no objects.
type tablePrinter struct {
	s             IO
	withNamespace bool
	t             *table
}

func (p *tablePrinter) object(u *unstructured.Unstructured) error {
	if p.t == nil {
		if p.withNamespace {
			p.t = newTable(p.s.Out, "NAMESPACE", "NAME", "AGE")
		} else {
			p.t = newTable(p.s.Out, "NAME", "AGE")
		}
	}
	age := ageOf(p.s.Now(), u.GetCreationTimestamp().Time)
	if p.withNamespace {
		return p.t.row(u.GetNamespace(), u.GetName(), age)
	}
	return p.t.row(u.GetName(), age)
}

func (p *tablePrinter) finish() error {
	if p.t == nil {
		return nil
	}
	return p.t.flush()
}

// ageOf is how long ago t was, as kubectl writes it. What is in the future, since the clock has been set back, was just now.
func ageOf(now, t time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(max(0, now.Sub(t)))
}

// namePrinter prints pod/x, deployment.apps/x.
type namePrinter struct{ w io.Writer }

func (p namePrinter) object(u *unstructured.Unstructured) error {
	gvk := u.GroupVersionKind()
	name := strings.ToLower(gvk.Kind)
	if gvk.Group != "" {
		name += "." + gvk.Group
	}
	_, err := fmt.Fprintf(p.w, "%s/%s\n", name, u.GetName())
	return err
}

func (namePrinter) finish() error { return nil }

type singlePrinter struct {
	w       io.Writer
	marshal func(any) ([]byte, error)
}

func (p *singlePrinter) object(u *unstructured.Unstructured) error {
	data, err := p.marshal(u.Object)
	if err != nil {
		return err
	}
	_, err = p.w.Write(data)
	return err
}

func (*singlePrinter) finish() error { return nil }

func marshalJSON(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "    ")
	return append(data, '\n'), err
}

func marshalYAML(v any) ([]byte, error) { return yaml.Marshal(v) }

// listPrinter prints a v1 List with one item in memory at a time, byte for byte what kubectl prints.
type listPrinter struct {
	w                         io.Writer
	item                      func(any) (string, error)
	head, between, tail, none string
	n                         int
}

const (
	jsonHead = "{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n"
	jsonTail = "\n    ],\n" + jsonMeta
	jsonNone = "{\n    \"apiVersion\": \"v1\",\n    \"items\": [],\n" + jsonMeta
	jsonMeta = "    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n"

	yamlHead = "apiVersion: v1\nitems:\n"
	yamlTail = "kind: List\nmetadata:\n  resourceVersion: \"\"\n"
	yamlNone = "apiVersion: v1\nitems: []\n" + yamlTail
)

func jsonItem(v any) (string, error) {
	data, err := json.MarshalIndent(v, "        ", "    ")
	return "        " + string(data), err
}

func yamlItem(v any) (string, error) {
	data, err := yaml.Marshal([]any{v})
	return string(data), err
}

func (p *listPrinter) object(u *unstructured.Unstructured) error {
	item, err := p.item(u.Object)
	if err != nil {
		return err
	}
	lead := p.between
	if p.n == 0 {
		lead = p.head
	}
	p.n++
	_, err = io.WriteString(p.w, lead+item)
	return err
}

func (p *listPrinter) finish() error {
	end := p.tail
	if p.n == 0 {
		end = p.none
	}
	_, err := io.WriteString(p.w, end)
	return err
}
