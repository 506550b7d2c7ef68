package query

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/internal/cli/compare"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/source"
)

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
