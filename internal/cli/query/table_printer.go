package query

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/liggitt/tabwriter"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/util/jsonpath"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/columns"
	"github.com/larder-dev/larder/internal/source"
)

// tableSample is the number of rows that determine the widths of a table's columns. Later rows are printed as they are
// read, and a wider cell widens its column.
const tableSample = 1000

// tablePrinter prints a table for each resource that has objects, separated by empty lines. It buffers tableSample
// rows, or all rows, without their objects, if they are sorted.
type tablePrinter struct {
	s             command.IO
	flags         *printFlags
	asked         *sortField // asked is the field of --sort-by; nil without the flag
	allNamespaces bool

	// by is the field by which rows are sorted: asked, or by default the server's order; nil sorts by key.
	by      *sortField
	columns *columns.Columns
	table   printers.ResourcePrinter
	w       *tabwriter.Writer
	out     countingWriter
	rows    []metav1.TableRow
	keys    sortKeys
}

// columnsOf returns the table's columns for the chosen collections. If only metadata is stored, it drops all columns
// except NAME and AGE, because they would show wrong values.
func columnsOf(c input.Choice) *columns.Columns {
	metadataOnly := slices.ContainsFunc(c.Collections,
		func(c source.Collection) bool { return c.Representation == string(entry.Metadata) })
	return columns.For(c.Resource.GroupResource(), c.Resource.Columns, metadataOnly)
}

func (p *tablePrinter) begin(c input.Choice, withKind bool) error {
	if err := p.end(); err != nil {
		return err
	}
	p.columns, p.by = columnsOf(c), p.asked
	if p.by == nil {
		var err error
		if p.by, err = newSortField(p.columns.SortedBy()); err != nil {
			return err
		}
	}
	p.table = printers.NewTablePrinter(printers.PrintOptions{
		NoHeaders:     p.flags.noHeaders,
		WithNamespace: p.allNamespaces && c.Resource.Namespaced,
		WithKind:      withKind || p.flags.showKind,
		Kind:          schema.GroupKind{Group: c.Resource.Group, Kind: c.Resource.Kind},
		Wide:          p.flags.format() == formatWide,
		ShowLabels:    p.flags.showLabels,
		ColumnLabels:  p.flags.labels,
	})
	p.out = countingWriter{w: terminal.NewVisibleWriter(p.s.Out), n: p.out.n,
		separate: p.out.n > 0 && !p.flags.noHeaders}
	p.w = printers.GetNewTabWriter(&p.out)
	return nil
}

func (p *tablePrinter) object(u *unstructured.Unstructured) error {
	row := p.row(u)
	if p.by != nil {
		if err := p.keys.add(p.by, u); err != nil {
			return err
		}
		row.Object.Object = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: u.GetNamespace(),
			Labels: u.GetLabels()}}
	}
	p.rows = append(p.rows, row)
	if len(p.rows) < tableSample || p.by != nil {
		return nil
	}
	return p.print()
}

func (p *tablePrinter) row(u *unstructured.Unstructured) metav1.TableRow {
	row := metav1.TableRow{Cells: p.columns.Row(u, p.s.Now()), Object: runtime.RawExtension{Object: u}}
	firstLines(row.Cells)
	return row
}

// event adds a table row with the event type before the object's cells. The next flush of w writes the row.
func (p *tablePrinter) event(what string, u *unstructured.Unstructured) error {
	t := &metav1.Table{ColumnDefinitions: p.columns.Definitions(), Rows: []metav1.TableRow{p.row(u)}}
	return p.table.PrintObj(&metav1.WatchEvent{Type: what, Object: runtime.RawExtension{Object: t}}, p.w)
}

// firstLines cuts each cell to its first line. cli-runtime's table printer also does that, but computes column widths
// from the full text.
func firstLines(cells []any) {
	for i, cell := range cells {
		s, _ := cell.(string)
		if at := strings.IndexAny(s, "\f\n\r"); at >= 0 {
			cells[i] = s[:at] + "..."
		}
	}
}

func (p *tablePrinter) print() error {
	if len(p.rows) == 0 {
		return nil
	}
	t := &metav1.Table{ColumnDefinitions: p.columns.Definitions(), Rows: p.rows}
	p.rows = nil
	if err := p.table.PrintObj(t, p.w); err != nil {
		return err
	}
	return p.w.Flush()
}

func (p *tablePrinter) end() error {
	if p.by != nil && len(p.rows) > 0 {
		order, err := p.keys.order(p.by)
		if err != nil {
			return err
		}
		sorted := make([]metav1.TableRow, len(order))
		for i, at := range order {
			sorted[i] = p.rows[at]
		}
		p.rows, p.keys = sorted, sortKeys{}
	}
	if err := p.print(); err != nil {
		return err
	}
	return p.out.err
}

func (p *tablePrinter) finish() error { return p.end() }

// countingWriter writes an empty line before its first byte if separate is set. It keeps the first error of w, because
// cli-runtime's table printer ignores write errors.
type countingWriter struct {
	w        io.Writer
	n        int
	separate bool
	err      error
}

func (w *countingWriter) Write(b []byte) (int, error) {
	if w.err != nil || len(b) == 0 {
		return 0, w.err
	}
	if w.separate {
		w.separate = false
		if _, w.err = fmt.Fprintln(w.w); w.err != nil {
			return 0, w.err
		}
	}
	n, err := w.w.Write(b)
	w.n, w.err = w.n+n, err
	return n, err
}

// columnsPrinter prints columns that the user defines. It replaces kubectl's printer, whose package imports most of
// kubectl.
type columnsPrinter struct {
	w       *tabwriter.Writer
	headers []string
	paths   []*jsonpath.JSONPath
	n       int
}

// newColumnsPrinter parses the definition of the columns in spec: comma-separated NAME:PATH pairs, or the name of a
// file with a line of names above a line of paths.
func newColumnsPrinter(w io.Writer, format, spec string, noHeaders bool) (*columnsPrinter, error) {
	if spec == "" {
		return nil,
			fmt.Errorf(
				"-o %s needs columns, as in -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName or -o "+
					"custom-columns-file=FILE", format)
	}
	names, paths, err := pairs(spec)
	if format == formatColumnsFile {
		names, paths, err = pairsIn(spec)
		noHeaders = false // like kubectl, which always prints the headers in the file
	}
	if err != nil {
		return nil, fmt.Errorf("-o %s: %w", format, err)
	}
	p := &columnsPrinter{w: printers.GetNewTabWriter(w)}
	if !noHeaders {
		p.headers = names
	}
	for _, path := range paths {
		parsed, err := parsePath(path)
		if err != nil {
			return nil, fmt.Errorf("-o %s: %w", format, err)
		}
		p.paths = append(p.paths, parsed)
	}
	return p, nil
}

func pairs(spec string) (names, paths []string, err error) {
	for _, pair := range strings.Split(spec, ",") {
		name, path, ok := strings.Cut(pair, ":")
		if !ok {
			return nil, nil, fmt.Errorf("%q is no column; write it as NAME:.metadata.name", pair)
		}
		names, paths = append(names, name), append(paths, path)
	}
	return names, paths, nil
}

func pairsIn(file string) (names, paths []string, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	lines := strings.SplitN(string(data), "\n", 3)
	if len(lines) > 1 {
		names, paths = strings.Fields(lines[0]), strings.Fields(lines[1])
	}
	if len(names) == 0 || len(names) != len(paths) {
		return nil, nil, fmt.Errorf("%s must have a line of names and a line of as many paths; they are %d and %d", file,
			len(names), len(paths))
	}
	return names, paths, nil
}

func (*columnsPrinter) begin(input.Choice, bool) error { return nil }

func (p *columnsPrinter) object(u *unstructured.Unstructured) error {
	if err := p.header(); err != nil {
		return err
	}
	cells := make([]string, len(p.paths))
	for i, path := range p.paths {
		results, err := path.FindResults(u.Object)
		if err != nil {
			return err
		}
		var texts []string
		for _, result := range results {
			for _, v := range result {
				texts = append(texts, printers.EscapeTerminal(fmt.Sprint(v.Interface())))
			}
		}
		if cells[i] = strings.Join(texts, ","); len(texts) == 0 {
			cells[i] = "<none>"
		}
	}
	if _, err := fmt.Fprintln(p.w, strings.Join(cells, "\t")); err != nil {
		return err
	}
	if p.n++; p.n%tableSample == 0 {
		return p.w.Flush()
	}
	return nil
}

// header prints the headers when it is first called, even if there are no objects.
func (p *columnsPrinter) header() error {
	if p.headers == nil {
		return nil
	}
	_, err := fmt.Fprintln(p.w, strings.Join(p.headers, "\t"))
	p.headers = nil
	return err
}

func (p *columnsPrinter) finish() error {
	if err := p.header(); err != nil {
		return err
	}
	return p.w.Flush()
}
