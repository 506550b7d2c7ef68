package file

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

// TestStatusOfHandlers checks that larder status names a durable event handler for which the store keeps tombstones of
// deleted objects, so that the user can find an unused handler.
func TestStatusOfHandlers(t *testing.T) {
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "larder.db")
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	id := entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
		Representation: entry.Unstructured}
	c, err := s.Collection(ctx, id, store.CollectionOptions{Codec: codec.Unstructured()})
	if err != nil {
		t.Fatal(err)
	}
	mail, err := c.OpenCursor(ctx, "mail")
	if err != nil {
		t.Fatal(err)
	}
	if err := mail.Acknowledge(consumer.Position{Failing: map[string]uint64{"a/x": 1}}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := c.OpenCursor(ctx, "audit"); err != nil {
		t.Fatal(err)
	}
	pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"namespace": "a", "name": "x", "uid": "u", "resourceVersion": "7"}}}
	if _, err := c.Apply(ctx, entry.Batch{ResourceVersion: "7",
		Ops: []entry.Op{{Type: entry.Upsert, Object: pod}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := runStatus(ctx, command.IO{Out: &out, Err: &out, Now: time.Now}, &input.FromFlag{Path: path},
		"table"); err != nil {
		t.Fatal(err)
	}
	_, handlers, _ := bytes.Cut(out.Bytes(), []byte("HANDLER"))
	want := `   RESOURCE   SCOPE   BEHIND       FAILING
audit     pods       all     everything   0
mail      pods       all     1            1
`
	if d := cmp.Diff(want, string(handlers)); d != "" {
		t.Errorf("%s\n%s", d, out.String())
	}
}

// TestStatusAndCheckOfLeftOut checks that larder status and larder check report objects that are not stored because a
// transform or codec refused them (issue 16, A2).
func TestStatusAndCheckOfLeftOut(t *testing.T) {
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "larder.db")
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	gvr := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	c, err := s.Collection(ctx, entry.Identity{GroupVersionResource: gvr, Representation: entry.Unstructured},
		store.CollectionOptions{Codec: codec.Unstructured()})
	if err != nil {
		t.Fatal(err)
	}
	left := entry.LeftOut{ObjectRef: entry.ObjectRef{Key: "a/x", UID: "u", ResourceVersion: "7"},
		Reason: entry.LeftOutTransform}
	b := entry.Batch{ResourceVersion: "7", Ops: []entry.Op{{Type: entry.LeaveOut, LeftOut: left}}}
	if _, err := c.Apply(ctx, b); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var out, notes bytes.Buffer
	streams, from := command.IO{Out: &out, Err: &notes, Now: time.Now}, &input.FromFlag{Path: path}
	for format, want := range map[string]string{"table": ", 1 object left out", "json": `"a/x@7: transform"`} {
		out.Reset()
		if err := runStatus(ctx, streams, from, format); err != nil || !bytes.Contains(out.Bytes(), []byte(want)) {
			t.Errorf("status -o %s: %v\n%s", format, err, out.String())
		}
	}
	if err := runCheck(ctx, streams, from, "text"); err != nil ||
		!bytes.Contains(notes.Bytes(), []byte("note: 1 object the server has")) {
		t.Errorf("check: %v\n%s%s", err, out.String(), notes.String())
	}
}

func TestColours(t *testing.T) {
	for state, want := range map[string]terminal.Colour{
		"live": terminal.Green, "offline 3m": terminal.Yellow, "waiting": terminal.Yellow, "stored": "", "snapshot": "",
		"live, incomplete": terminal.Red, "stopped": "",
	} {
		if got := colourOfState(state); got != want {
			t.Errorf("%s: %q", state, got)
		}
	}
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if !terminal.WantsColours() {
		t.Error("a terminal is not coloured")
	}
	t.Setenv("NO_COLOR", "1")
	if terminal.WantsColours() {
		t.Error("NO_COLOR is set")
	}
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "dumb")
	if terminal.WantsColours() {
		t.Error("TERM is dumb")
	}
}

func TestState(t *testing.T) {
	for want, change := range map[string]func(*source.Collection){
		"stored":             nil,
		"stored, incomplete": func(c *source.Collection) { c.Complete = false },
		"stored, must relist (damage)": func(c *source.Collection) {
			c.Notes = entry.Info{MustRelist: "damage"}.Notes(clitest.Now, false)
		},
		"stored, redacted: values of data": func(c *source.Collection) {
			// The state "redacted" replaces the note of the transform.
			c.Notes = entry.Info{Attributes: entry.Attributes{Transform: "redacted"}}.Notes(clitest.Now, false)
			c.Redacted = []string{"values of data"}
		},
		"live":       func(c *source.Collection) { c.Live = &source.Live{Source: "live"} },
		"connecting": func(c *source.Collection) { c.Live = &source.Live{Source: "disk"} },
		"offline": func(c *source.Collection) {
			c.Live = &source.Live{Source: "disk", Error: "no route to host"}
		},
		"offline 3m": func(c *source.Collection) {
			c.Live = &source.Live{Source: "disk", Error: "no route to host", Since: clitest.Now.Add(-3 * time.Minute)}
		},
		"listed, cannot be watched": func(c *source.Collection) {
			c.Live = &source.Live{Source: "disk", ListOnly: true, Error: "405", Since: clitest.Now.Add(-3 * time.Minute)}
			c.Notes = entry.Info{}.Notes(clitest.Now, true)
		},
		"waiting": func(c *source.Collection) {
			c.Live = &source.Live{Source: "none",
				Since: clitest.Now.Add(-3 * time.Minute)}
		},
		"live, to be written anew (OpenAPIChanged)": func(c *source.Collection) {
			c.Live = &source.Live{Source: "live",
				Rewriting: "OpenAPIChanged"}
		},
		"live, as JSON: the server is newer": func(c *source.Collection) {
			c.Live = &source.Live{Source: "live", Encoding: "JSON: the server is newer"}
		},
		"stored, changed by a transform": func(c *source.Collection) {
			c.Notes = entry.Info{Attributes: entry.Attributes{Transform: "7"}}.Notes(clitest.Now, false)
		},
		"stored, typed":                func(c *source.Collection) { c.Representation = "typed" },
		"stored, metadata, incomplete": func(c *source.Collection) { c.Representation, c.Complete = "metadata", false },
		"live, in memory only": func(c *source.Collection) {
			c.Live, c.Persistent = &source.Live{Source: "live"},
				false
		},
	} {
		if got := input.State(clitest.Now, clitest.Stored(clitest.Pods, change)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
