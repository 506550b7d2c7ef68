package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/compare"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/source"
)

// eventPrinter prints objects as a watch delivers them. If events is set it also prints the type of each event: as a
// column of tables, after -o name, and around the objects of JSON and YAML. Templates and custom columns print the
// objects alone unless the user asked for event types.
type eventPrinter struct {
	w       io.Writer
	to      printer
	format  string
	events  bool
	asked   bool
	managed bool // managed prints the metadata field managedFields
	printed bool
	// current is the resource of the object printed last. Each resource is printed in a table of its own.
	current input.Resource
	several bool
}

func newEventPrinter(w io.Writer, s command.IO, o *getOptions, answers []answer) (*eventPrinter, error) {
	to, err := o.print.printer(command.IO{Out: w, Err: s.Err, Now: s.Now}, true, o.all)
	if err != nil {
		return nil, err
	}
	p := &eventPrinter{
		current: answers[0].Resource, several: len(answers) > 1, w: w, to: to, format: strings.ToLower(o.print.format()),
		events: o.events, asked: o.eventsAsked, managed: o.print.managedFields,
	}
	return p, to.begin(answers[0].Choice, p.several)
}

// event is the JSON and YAML form of an event: kubectl's fields and seq, the event's number in the changelog.
type event struct {
	Object map[string]any   `json:"object"`
	Seq    uint64           `json:"seq,omitempty"`
	Type   source.EventType `json:"type"`
}

func (p *eventPrinter) print(of watched, t source.EventType, seq uint64, u *unstructured.Unstructured) error {
	if p.current.GroupVersionResource != of.Resource.GroupVersionResource {
		p.current = of.Resource
		if err := errors.Join(p.flush(), p.to.begin(of.Choice, p.several)); err != nil {
			return err
		}
	}
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
	case p.format == "json", p.format == "yaml", p.format == "kyaml":
		return p.document(event{Object: u.Object, Seq: seq, Type: t})
	case p.asked:
		wrapped := map[string]any{"type": string(t), "object": u.Object}
		if seq != 0 {
			wrapped["seq"] = int64(seq)
		}
		return p.to.object(&unstructured.Unstructured{Object: wrapped})
	}
	return p.to.object(u)
}

// document prints an event as a JSON or YAML document. JSON is on one line, like kubectl's.
func (p *eventPrinter) document(e event) error {
	if !p.managed {
		unstructured.RemoveNestedField(e.Object, "metadata", "managedFields")
	}
	switch p.format {
	case "json":
		enc := json.NewEncoder(p.w)
		enc.SetEscapeHTML(false)
		return enc.Encode(e)
	case "kyaml":
		return command.ToKYAML(e, p.w)
	}
	data, err := command.ToYAML(e)
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

func (p *eventPrinter) flush() error {
	err := p.to.finish()
	if table, ok := p.to.(*tablePrinter); ok && err == nil {
		if err = table.w.Flush(); err == nil {
			err = table.out.err
		}
	}
	return err
}

const formatChanges = "changes"

type eventSink interface {
	print(of watched, t source.EventType, seq uint64, u *unstructured.Unstructured) error
	flush() error
}

// changePrinter prints each event with the fields that changed since the object's previous event. It keeps the last
// state of every object in memory.
type changePrinter struct {
	diffChanges
	last map[string]map[string]any
}

func newChangePrinter(w io.Writer, colours bool) *changePrinter {
	return &changePrinter{diffChanges{diffLines{w: w}, colours}, map[string]map[string]any{}}
}

var colourOfEvent = map[source.EventType]terminal.Colour{
	source.Added: terminal.Green, source.Deleted: terminal.Red, source.Modified: terminal.Yellow,
}

func (p *changePrinter) print(of watched, t source.EventType, _ uint64, u *unstructured.Unstructured) error {
	before, known := p.note(of, t, u)
	err := p.line(colourOfEvent[t], "", fmt.Sprintf("%-8s %s %s", t, of.Resource, keyOf(u)))
	if err != nil || t != source.Modified {
		return err
	}
	if !known {
		return p.line("", "  ", "what it was before is not known")
	}
	return p.fields(compare.Fields(before, compared(u), compare.Concealed(of.collection.Saved())))
}

// note stores the current state of an object and returns its previous state.
func (p *changePrinter) note(
	of watched, t source.EventType, u *unstructured.Unstructured,
) (before map[string]any, known bool) {
	key := of.collection.ID + "/" + keyOf(u)
	before, known = p.last[key]
	if t == source.Deleted {
		delete(p.last, key)
	} else {
		p.last[key] = compared(u)
	}
	return before, known
}

func (p *changePrinter) flush() error { return nil }

func compared(u *unstructured.Unstructured) map[string]any {
	for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
		unstructured.RemoveNestedField(u.Object, "metadata", field)
	}
	return u.Object
}

func keyOf(u *unstructured.Unstructured) string {
	if ns := u.GetNamespace(); ns != "" {
		return ns + "/" + u.GetName()
	}
	return u.GetName()
}
