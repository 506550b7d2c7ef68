package query

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/liggitt/tabwriter"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/util/jsonpath"

	"github.com/larder-dev/larder/internal/cli/input"
)

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
