package query

import (
	"encoding/json"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
)

type eachPrinter struct {
	w  io.Writer
	to printers.ResourcePrinter
}

func (*eachPrinter) begin(input.Choice, bool) error { return nil }

func (p *eachPrinter) object(u *unstructured.Unstructured) error {
	return p.to.PrintObj(u, p.w)
}

func (*eachPrinter) finish() error { return nil }

// namePrinter prints objects as RESOURCE/NAME, for -o name.
type namePrinter struct{ eachPrinter }

// wholePrinter collects all objects and prints them as one List, like kubectl, because a template may refer to any
// object of the list.
type wholePrinter struct {
	w    io.Writer
	to   printers.ResourcePrinter
	list unstructured.UnstructuredList
}

func (*wholePrinter) begin(input.Choice, bool) error { return nil }

func (p *wholePrinter) object(u *unstructured.Unstructured) error {
	p.list.Items = append(p.list.Items, *u)
	return nil
}

func (p *wholePrinter) finish() error {
	p.list.Object = map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""}}
	return p.to.PrintObj(&p.list, p.w)
}

// listPrinter streams a v1 List, byte for byte like kubectl, with one item in memory at a time.
type listPrinter struct {
	w                         io.Writer
	keepManagedFields         bool
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

func newJSONList(w io.Writer, keepManagedFields bool) *listPrinter {
	return &listPrinter{w: w, keepManagedFields: keepManagedFields, item: jsonItem, head: jsonHead, between: ",\n",
		tail: jsonTail, none: jsonNone}
}

func newYAMLList(w io.Writer, keepManagedFields bool) *listPrinter {
	return &listPrinter{w: w, keepManagedFields: keepManagedFields, item: yamlItem, head: yamlHead, tail: yamlTail,
		none: yamlNone}
}

func jsonItem(v any) (string, error) {
	data, err := json.MarshalIndent(v, "        ", "    ")
	return "        " + string(data), err
}

func yamlItem(v any) (string, error) {
	data, err := command.ToYAML([]any{v})
	return string(data), err
}

func (*listPrinter) begin(input.Choice, bool) error { return nil }

func (p *listPrinter) object(u *unstructured.Unstructured) error {
	if !p.keepManagedFields {
		unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
	}
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
