package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/cli/terminal"
)

// printer prints objects one by one. Call begin before the objects of each resource, and finish at the end.
type printer interface {
	// begin starts the output for the objects of one resource. withKind adds the kind to the objects' names.
	begin(c input.Choice, withKind bool) error
	object(u *unstructured.Unstructured) error
	finish() error
}

// printFlags are the flags that choose the output format, with the same names as in kubectl.
type printFlags struct {
	output        string
	template      string
	allowMissing  bool // allowMissing is --allow-missing-template-keys: missing keys in a template are no error
	managedFields bool
	noHeaders     bool
	showLabels    bool
	showKind      bool
	labels        []string
	sortBy        string
	// watched says that the command prints changes as they arrive. Only a watching command has the format -o changes.
	watched bool
}

func newPrintFlags() printFlags {
	return printFlags{output: formatTable, allowMissing: true}
}

const (
	formatTable       = "table"
	formatWide        = "wide"
	formatColumns     = "custom-columns"
	formatColumnsFile = "custom-columns-file"
)

func (f *printFlags) formats() []string {
	all := append([]string{formatTable, formatWide, formatColumns, formatColumnsFile}, objectFormats...)
	if f.watched {
		all = append(all, formatChanges)
	}
	slices.Sort(all[2:])
	return all
}

func (f *printFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.managedFields, "show-managed-fields", false, "keep managedFields in JSON and YAML")
	cmd.Flags().StringVar(&f.template, "template", "",
		"`TEMPLATE` of Go or its file, for -o go-template and go-template-file")
	_ = cmd.MarkFlagFilename("template")
	cmd.Flags().BoolVar(&f.allowMissing, "allow-missing-template-keys", f.allowMissing,
		"ignore fields in templates and JSONPaths that an object lacks; otherwise they are errors")
	cmd.Flags().StringVarP(&f.output, "output", "o", f.output, "output `FORMAT`: "+strings.Join(f.formats(), ", "))
	cmd.Flags().BoolVar(&f.noHeaders, "no-headers", false, "print no headers above tables and custom columns")
	cmd.Flags().BoolVar(&f.showLabels, "show-labels", false, "print all labels as the last column of tables")
	cmd.Flags().BoolVar(&f.showKind, "show-kind", false, "print the kind before the names in tables")
	cmd.Flags().StringSliceVarP(&f.labels, "label-columns", "L", nil,
		"`LABELS` that become columns of tables, separated by commas")
	cmd.Flags().StringVar(&f.sortBy, "sort-by", "",
		"sort by the field that a JSONPath `EXPRESSION` names, as in {.metadata.name}; holds all objects in memory")
}

func (f *printFlags) table() bool {
	return f.format() == formatTable || f.format() == formatWide
}

func (f *printFlags) showsManagedFields() bool {
	switch strings.ToLower(f.format()) {
	case formatTable, formatWide, "name", "json", "yaml":
		return f.managedFields || f.sortBy != ""
	}
	return true
}

// format returns the output format that -o names. If only --template is given, it is go-template.
func (f *printFlags) format() string {
	if f.template != "" && (f.output == formatTable || f.output == "") {
		return "go-template"
	}
	if f.output == "" {
		return formatTable
	}
	return f.output
}

func (f *printFlags) check() error {
	name, _, _ := strings.Cut(f.format(), "=")
	switch {
	case name == formatChanges && !f.watched:
		return command.Usagef("-o %s needs -w", formatChanges)
	case !slices.Contains(f.formats(), strings.ToLower(name)):
		return command.Usagef("unknown output format %q; known are %s", f.output, strings.Join(f.formats(), ", "))
	case f.showLabels && !f.table():
		return command.Usagef("--show-labels is for tables, not for -o %s", name)
	}
	return nil
}

// printer returns the printer for the flags. single says that one object was requested by name: JSON, YAML and
// templates then print the object alone, not in a List.
func (f *printFlags) printer(s command.IO, single, allNamespaces bool) (printer, error) {
	by, err := newSortField(f.sortBy)
	if err != nil {
		return nil, err
	}
	if f.table() {
		return &tablePrinter{s: s, flags: f, asked: by, allNamespaces: allNamespaces}, nil
	}
	p, err := f.plain(s, single)
	if err != nil {
		return nil, command.Usage(err)
	}
	if by != nil {
		return &sortingPrinter{to: p, by: by}, nil
	}
	return p, nil
}

func (f *printFlags) plain(s command.IO, single bool) (printer, error) {
	name, value, _ := strings.Cut(f.format(), "=")
	if value == "" {
		value = f.template
	}
	if name == formatColumns || name == formatColumnsFile {
		return newColumnsPrinter(s.Out, name, value, f.noHeaders)
	}
	delegate, err := f.objectPrinter(f.format())
	if err != nil {
		return nil, fmt.Errorf("-o %s: %w", name, err)
	}
	keep := f.managedFields
	switch lower := strings.ToLower(name); {
	case lower == "name":
		return &namePrinter{eachPrinter{w: terminal.NewVisibleWriter(s.Out), to: delegate}}, nil
	case single:
		return &eachPrinter{w: s.Out, to: delegate}, nil
	case lower == "json":
		return newJSONList(s.Out, keep), nil
	case lower == "yaml":
		return newYAMLList(s.Out, keep), nil
	}
	return &wholePrinter{w: s.Out, to: delegate}, nil
}

// objectFormats are the output formats for whole objects that cli-runtime's printers support.
var objectFormats = []string{
	"json", "yaml", "kyaml", "name",
	"go-template", "go-template-file", "template", "templatefile", "jsonpath", "jsonpath-as-json", "jsonpath-file",
}

func (f *printFlags) objectPrinter(format string) (printers.ResourcePrinter, error) {
	var p printers.ResourcePrinter
	switch strings.ToLower(format) {
	case "name":
		return &printers.NamePrinter{ShortOutput: true}, nil
	case "json":
		p = &printers.JSONPrinter{}
	case "yaml":
		p = yamlPrinter()
	case "kyaml":
		p = printers.ResourcePrinterFunc(func(obj runtime.Object, w io.Writer) error { return command.ToKYAML(obj, w) })
	default:
		return f.templatePrinter(format)
	}
	if !f.managedFields {
		p = &printers.OmitManagedFieldsPrinter{Delegate: p}
	}
	return p, nil
}

func (f *printFlags) templatePrinter(format string) (printers.ResourcePrinter, error) {
	format, template, _ := strings.Cut(format, "=")
	if f.template != "" {
		template = f.template
	}
	if template == "" {
		return nil, errors.New("template format specified but no template given")
	}
	if strings.HasSuffix(format, "file") {
		data, err := os.ReadFile(template)
		if err != nil {
			return nil, fmt.Errorf("read the template: %w", err)
		}
		template = string(data)
	}
	if strings.HasPrefix(format, "jsonpath") {
		p, err := printers.NewJSONPathPrinter(template)
		if err != nil {
			return nil, fmt.Errorf("error parsing jsonpath %s, %w", template, err)
		}
		p.AllowMissingKeys(f.allowMissing)
		p.EnableJSONOutput(format == "jsonpath-as-json")
		return p, nil
	}
	p, err := printers.NewGoTemplatePrinter([]byte(template))
	if err != nil {
		return nil, fmt.Errorf("error parsing template %s, %w", template, err)
	}
	p.AllowMissingKeys(f.allowMissing)
	return p, nil
}

func yamlPrinter() printers.ResourcePrinter {
	printed := false
	return printers.ResourcePrinterFunc(func(obj runtime.Object, w io.Writer) error {
		text, err := command.ToYAML(obj)
		if err == nil && printed {
			_, err = io.WriteString(w, "---\n")
		}
		if err == nil {
			_, err = w.Write(text)
		}
		printed = true
		return err
	})
}

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
