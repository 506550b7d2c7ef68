package cli

import (
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/internal/source"
)

// eventPrinter prints objects one after the other as they come, and what has become of them if events is set.
type eventPrinter struct {
	w             io.Writer
	now           func() time.Time
	format        string
	events        bool
	withNamespace bool
	t             *table
	printed       bool
}

func newEventPrinter(w io.Writer, now func() time.Time, format string, events, withNamespace bool) *eventPrinter {
	return &eventPrinter{w: w, now: now, format: format, events: events, withNamespace: withNamespace}
}

// event is one as JSON and YAML have it: what kubectl prints, and the seq.
type event struct {
	Object map[string]any   `json:"object"`
	Seq    uint64           `json:"seq,omitempty"`
	Type   source.EventType `json:"type"`
}

func (p *eventPrinter) print(t source.EventType, seq uint64, u *unstructured.Unstructured) error {
	var v any = u.Object
	if p.events {
		v = event{Object: u.Object, Seq: seq, Type: t}
	}
	switch p.format {
	case "json":
		return p.document(marshalJSON, v, "")
	case "yaml":
		return p.document(marshalYAML, v, "---\n")
	case "name":
		if p.events {
			if _, err := fmt.Fprintf(p.w, "%-8s ", t); err != nil {
				return err
			}
		}
		return namePrinter{p.w}.object(u)
	}
	return p.row(t, u)
}

func (p *eventPrinter) document(marshal func(any) ([]byte, error), v any, between string) error {
	data, err := marshal(v)
	if err != nil {
		return err
	}
	if p.printed {
		data = append([]byte(between), data...)
	}
	p.printed = true
	_, err = p.w.Write(data)
	return err
}

// row prints a row of a table whose columns are as wide as those of the first rows need.
func (p *eventPrinter) row(t source.EventType, u *unstructured.Unstructured) error {
	header, cells := []string{"NAME", "AGE"}, []string{u.GetName(), ageOf(p.now(), u.GetCreationTimestamp().Time)}
	if p.withNamespace {
		header, cells = append([]string{"NAMESPACE"}, header...), append([]string{u.GetNamespace()}, cells...)
	}
	if p.events {
		header, cells = append([]string{"EVENT"}, header...), append([]string{string(t)}, cells...)
	}
	if p.t == nil {
		p.t = newTable(p.w, header...)
		if p.events {
			p.t.widths = []int{len(source.Modified)} // which may come later
		}
	}
	return p.t.row(cells...)
}

// flush prints what is held back.
func (p *eventPrinter) flush() error {
	if p.t == nil {
		return nil
	}
	return p.t.flush()
}
