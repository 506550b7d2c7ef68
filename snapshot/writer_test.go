package snapshot_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

func identityOf(resource string) entry.Identity {
	return entry.Identity{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1",
			Resource: resource}, Representation: entry.Unstructured,
	}
}

func rec(key string, size int) entry.Entry {
	return entry.Entry{Key: key, UID: "uid-" + key[:min(len(key), 100)], ResourceVersion: "7", Encoding: "of the future",
		Payload: payload(len(key), size)}
}

func mustWriter(t *testing.T, w io.Writer) *snapshot.Writer {
	t.Helper()
	s, err := snapshot.NewWriter(w, snapshot.Header{Larder: "v1.2.3"}, snapshot.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWriterRefusesDisorder(t *testing.T) {
	pods := snapshot.Collection{Identity: identityOf("pods")}
	begin := func(w *snapshot.Writer) error { return w.Begin(pods.Identity) }
	end := func(w *snapshot.Writer) error { _, err := w.End(pods); return err }
	add := func(key string) func(*snapshot.Writer) error {
		return func(w *snapshot.Writer) error { return w.Add(rec(key, 1)) }
	}
	for name, c := range map[string]struct {
		steps []func(*snapshot.Writer) error
		want  string
	}{
		"a collection twice": {[]func(*snapshot.Writer) error{begin, end, begin},
			"pods.v1 (unstructured) is there twice"},
		"keys descend": {[]func(*snapshot.Writer) error{begin, add("b"), add("a")}, `key "a" after "b"`},
		"a key twice":  {[]func(*snapshot.Writer) error{begin, add("b"), add("b")}, `key "b" after "b"`},
		"no key":       {[]func(*snapshot.Writer) error{begin, add("")}, "without a key"},
	} {
		t.Run(name, func(t *testing.T) {
			w := mustWriter(t, io.Discard)
			for i, step := range c.steps {
				err := step(w)
				if i < len(c.steps)-1 {
					if err != nil {
						t.Fatal(err)
					}
					continue
				}
				if !errors.Is(err, snapshot.ErrOrder) || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("%v, want %q", err, c.want)
				}
			}
		})
	}
}

// TestKeyOrderPerCollection checks that the keys of each collection may start again from the lowest key.
func TestKeyOrderPerCollection(t *testing.T) {
	content{collections: []contentOf{
		{snapshot.Collection{Identity: identityOf("pods")}, []entry.Entry{rec("z", 1)}},
		{snapshot.Collection{Identity: identityOf("nodes")}, []entry.Entry{rec("a", 1)}},
	}}.bytes(t, snapshot.WriterOptions{})
}

func TestWriterBounds(t *testing.T) {
	for name, r := range map[string]entry.Entry{
		"payload": rec("a", maxPart), "key": rec(strings.Repeat("k", maxKey+1), 1),
		"uid": {Key: "a", UID: strings.Repeat("u", maxPart)},
	} {
		w := mustWriter(t, io.Discard)
		if err := w.Begin(identityOf("pods")); err != nil {
			t.Fatal(err)
		}
		if err := w.Add(r); !errors.Is(err, snapshot.ErrTooLarge) || len(err.Error()) > 500 {
			t.Errorf("%s: %.600v", name, err)
		}
	}
	if _, err := snapshot.NewWriter(io.Discard, snapshot.Header{Larder: strings.Repeat("v", 256)},
		snapshot.WriterOptions{}); !errors.Is(err, snapshot.ErrTooLarge) {
		t.Error(err)
	}
	w := mustWriter(t, io.Discard)
	c := snapshot.Collection{Identity: identityOf("pods"), MustRelist: strings.Repeat("x", maxPart)}
	if err := w.Begin(c.Identity); err != nil {
		t.Fatal(err)
	}
	if _, err := w.End(c); err != nil {
		t.Error(err)
	}
	if err := w.Close(); !errors.Is(err, snapshot.ErrTooLarge) {
		t.Error(err)
	}
}

// TestLargestRecords checks that records of the maximum allowed size can be read again, even if they do not fit into
// the block that is being filled (issue 37).
func TestLargestRecords(t *testing.T) {
	large := rec("b", maxPart-200)
	longKey := rec(strings.Repeat("c", maxKey), 10)
	want := content{header: snapshot.Header{Larder: "x"}, collections: []contentOf{
		{snapshot.Collection{Identity: identityOf("pods")}, []entry.Entry{rec("a", 100_000), large, longKey}},
	}}
	data := want.bytes(t, snapshot.WriterOptions{})
	got, _, err := readAll(data, snapshot.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want.check(t, got)
}

type failing struct{ n int }

var errDisk = errors.New("the disk is full")

func (f *failing) Write(p []byte) (int, error) {
	if f.n--; f.n < 0 {
		return 0, errDisk
	}
	return len(p), nil
}

func TestWriteErrorsAreReturned(t *testing.T) {
	c := content{collections: []contentOf{{snapshot.Collection{Identity: identityOf("pods")},
		[]entry.Entry{rec("a", blockTarget), rec("b", 1)}}}}
	for n := range 5 {
		err := c.write(&failing{n}, snapshot.WriterOptions{})
		if !errors.Is(err, errDisk) {
			t.Errorf("write %d: %v", n, err)
		}
	}
	if err := c.write(&failing{20}, snapshot.WriterOptions{}); err != nil {
		t.Error(err)
	}
}
