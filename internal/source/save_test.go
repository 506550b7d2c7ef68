package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/diff"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

func TestSnapshotThroughTheSocket(t *testing.T) {
	ctx := context.Background()
	st, err := store.Open(filepath.Join(t.TempDir(), "s"), store.Options{})
	must(t, err)
	defer st.Close()
	id := write(t, st, entry.Unstructured, identified(pod("a", "x", nil)))
	writeAs(t, st, entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"},
		Representation: entry.Unstructured},
		entry.ResourceInfo{Kind: "Secret", Namespaced: true}, identified(pod("a", "hidden", nil)))
	client, _ := serve(t, holding{NewFile(st)})
	for _, tc := range []struct {
		req  SaveRequest
		want int
	}{{SaveRequest{}, 1}, {SaveRequest{Secrets: true}, 2},
		{SaveRequest{Filter: snapshot.Filter{Namespaces: []string{"b"}}}, 0}} {
		body, err := client.Snapshot(ctx, tc.req)
		must(t, err)
		path := filepath.Join(t.TempDir(), "s.larder")
		saved, err := snapshot.SaveStream(ctx, body, path, snapshot.SaveOptions{})
		if err != nil || saved.Objects != tc.want {
			t.Errorf("%+v: %+v, %v", tc.req, saved, err)
		}
		must(t, body.Close())
		src := openSource(t, path, Options{})
		if status, err := src.Status(ctx); err != nil || status.Snapshot.Larder != me.Version {
			t.Errorf("%+v, %v", status.Snapshot, err)
		}
		if got, err := collect(ctx, src, Query{Collection: id}); tc.want > 0 && (err != nil || len(got) != 1) {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// TestSnapshotThroughTheSocketFails checks that the larder sync's error reaches the client, before or after the first
// byte of the snapshot, and that no file is left.
func TestSnapshotThroughTheSocketFails(t *testing.T) {
	ctx := context.Background()
	failure := errors.New("the disk is full of sand")
	whole := readFile(t, writeSnapshot(t, nil))
	src := &fakeSource{}
	client, _ := serve(t, src)
	for name, write := range map[string]func(io.Writer) error{
		"at once": func(io.Writer) error { return failure },
		"later": func(w io.Writer) error {
			_, err := w.Write(whole[:len(whole)/2])
			return errors.Join(err, failure)
		},
	} {
		src.save = write
		body, err := client.Snapshot(ctx, SaveRequest{Secrets: true})
		if err == nil {
			_, err = io.ReadAll(body)
			_ = body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), failure.Error()) || !src.asked.Secrets {
			t.Errorf("%s: got %v", name, err)
		}
		if body, err := client.Snapshot(ctx, SaveRequest{}); err == nil {
			path := filepath.Join(t.TempDir(), "s.larder")
			_, err := snapshot.SaveStream(ctx, body, path, snapshot.SaveOptions{})
			if err == nil {
				t.Errorf("%s: a snapshot was made of it", name)
			}
			_ = body.Close()
			onlyRemains(t, filepath.Dir(path))
		}
	}
}

// TestKindsOfErrorsThroughTheSocket checks that the kind and the text of the larder sync's error reach the client,
// before or after the first byte of a response.
func TestKindsOfErrorsThroughTheSocket(t *testing.T) {
	src := &fakeSource{}
	client, _ := serve(t, src)
	for _, kind := range []error{entry.ErrDamaged, seal.ErrSealed, store.ErrNoSpace} {
		for _, sent := range []string{"", "something"} {
			failure := fmt.Errorf("two objects:\n  a\n  b: %w", kind)
			src.save = func(w io.Writer) error {
				_, err := io.WriteString(w, sent)
				return errors.Join(err, failure)
			}
			body, err := client.Snapshot(t.Context(), SaveRequest{})
			if err == nil {
				_, err = io.ReadAll(body)
				_ = body.Close()
			}
			if !errors.Is(err, kind) || !OfSync(err) || !strings.Contains(err.Error(), failure.Error()) {
				t.Errorf("%v after %q: got %q", kind, sent, err)
			}
		}
	}
}

func TestRecordsOfEverySource(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "s")
	st, err := store.Open(path, store.Options{})
	must(t, err)
	defer st.Close()
	write(t, st, entry.Unstructured, identified(pod("a", "x", map[string]string{"app": "web"})))
	file := NewFile(st)
	client, _ := serve(t, holding{file})
	saved := filepath.Join(t.TempDir(), "s.larder")
	_, err = snapshot.SaveStore(ctx, st, saved, snapshot.SaveOptions{})
	must(t, err)
	all := []Source{file, client, openSource(t, saved, Options{})}
	for _, a := range all {
		for _, b := range all {
			report, err := diff.Compare(ctx, Records(a), Records(b), diff.Options{Ignore: []string{}},
				func(c diff.Change) error {
					t.Errorf("%T and %T: %s %s", a, b, c.Kind, c.Key)
					return nil
				})
			if err != nil || !report.Equal() || report.Same != 1 {
				t.Errorf("%T and %T: %+v, %v", a, b, report, err)
			}
		}
	}
	if report, err := diff.Compare(ctx, Records(client), Records(&fakeSource{}), diff.Options{},
		nil); err != nil || len(report.OnlyInA) != 1 {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestRecordsOfADamagedSnapshot checks that damage of one collection does not make the snapshot's other collections
// unreadable.
func TestRecordsOfADamagedSnapshot(t *testing.T) {
	p, other := bulky(3), podsOf(entry.Metadata, identified(pod("a", "x", nil)))
	whole := writeSnapshot(t, []part{p, other})
	data := readFile(t, whole)
	data[blockAt(t, whole, 1)+100] ^= 1
	path := filepath.Join(t.TempDir(), "d.larder")
	writeFile(t, path, data)
	src := openSource(t, path, Options{})
	for _, tc := range []struct {
		part       part
		records    int
		incomplete bool
	}{{p, 2, true}, {other, 1, false}} {
		got := 0
		err := Records(src).Records(t.Context(), tc.part.id, func(entry.Entry) error { got++; return nil })
		var missing *snapshot.MissingError
		if got != tc.records || errors.As(err, &missing) != tc.incomplete || tc.incomplete && missing.Objects != 1 {
			t.Errorf("%s: %d records, %v", tc.part.id, got, err)
		}
	}
}
