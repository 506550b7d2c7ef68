package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/larder-dev/larder/internal/source"
)

// eventPrinter prints objects one after the other as they come, and what has become of them if events is set: in tables, after -o name, and
// around the objects of JSON and YAML. Templates and columns of the user's get the objects alone.
type eventPrinter struct {
	w       io.Writer
	to      printer
	format  string
	events  bool
	managed bool // print managedFields
	printed bool
}

func newEventPrinter(w io.Writer, s IO, o *getOptions, c choice) (*eventPrinter, error) {
	to, err := o.print.printer(IO{Out: w, Err: s.Err, Now: s.Now}, true, o.all)
	if err != nil {
		return nil, err
	}
	return &eventPrinter{
		w: w, to: to, format: strings.ToLower(o.print.format()), events: o.events, managed: o.print.cli.JSONYamlPrintFlags.ShowManagedFields,
	}, to.begin(c, false)
}

// event is one as JSON and YAML have it: what kubectl prints, and the seq.
type event struct {
	Object map[string]any   `json:"object"`
	Seq    uint64           `json:"seq,omitempty"`
	Type   source.EventType `json:"type"`
}

func (p *eventPrinter) print(t source.EventType, seq uint64, u *unstructured.Unstructured) error {
	table, isTable := p.to.(*tablePrinter)
	switch {
	case !p.events:
		return p.to.object(u)
	case isTable:
		return table.event(string(t), u)
	case p.format == "name":
		if _, err := fmt.Fprintf(p.w, "%-8s ", t); err != nil {
			return err
		}
		return p.to.object(u)
	case p.format == "json", p.format == "yaml":
		return p.document(t, seq, u.Object)
	}
	return p.to.object(u)
}

func (p *eventPrinter) document(t source.EventType, seq uint64, content map[string]any) error {
	if !p.managed {
		content = withMetadata(content, func(meta map[string]any) { delete(meta, "managedFields") })
	}
	e := event{Object: content, Seq: seq, Type: t}
	if p.format == "json" {
		enc := json.NewEncoder(p.w)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "    ")
		return enc.Encode(e)
	}
	data, err := yaml.Marshal(e)
	if err != nil {
		return err
	}
	if p.printed {
		data = append([]byte("---\n"), data...)
	}
	p.printed = true
	_, err = p.w.Write(data)
	return err
}

// flush prints what is held back.
func (p *eventPrinter) flush() error {
	err := p.to.finish()
	if table, ok := p.to.(*tablePrinter); ok && err == nil {
		if err = table.w.Flush(); err == nil {
			err = table.out.err
		}
	}
	return err
}
