package source

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/layout"
	"github.com/larder-dev/larder/store"
)

var me = Sync{PID: 42, Version: "v1", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}

func serve(t *testing.T, src Holder) (*Client, *Server) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.larder")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(src, me)
	server.Start(l)
	socket, err := SocketPath(path)
	if err != nil {
		t.Fatal(err)
	}
	client, who, err := Dial(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(me, who); d != "" {
		t.Error("ping:", d)
	}
	t.Cleanup(func() {
		_ = client.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(socket); err == nil {
			t.Error("the socket is still there after Close")
		}
	})
	return client, server
}

func TestSocketAnswersAsTheSource(t *testing.T) {
	ctx := context.Background()
	src := &fakeSource{
		status: Status{Store: "s", Bytes: 10, FreeBytes: 2, WrittenBytes: 7, Collections: []Collection{{
			ID: "c", Version: "v1", Resource: "pods", Kind: "Pod", ShortNames: []string{"po"}, Objects: 2,
			LastContact: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
			Live:        &Live{Source: "live", Relists: map[string]int{"Expired": 2}, BytesReceived: 9},
		}}},
		compacted:   store.Compacted{Before: 9, After: 4},
		report:      store.Report{Collections: 1, Objects: 2, Problems: []string{"p"}},
		collections: map[string]*fakeCollection{"c": newFake(pod("a", "x", nil), pod("b", "y", nil))},
	}
	client, _ := serve(t, src)

	status, err := client.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := src.status
	want.Sync = &me
	if d := cmp.Diff(want, status); d != "" {
		t.Error("status:", d)
	}
	report, err := client.Check(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(src.report, report); d != "" {
		t.Error("check:", d)
	}
	if done, err := client.Compact(ctx); err != nil || done != src.compacted {
		t.Errorf("compact: %+v, %v", done, err)
	}
	var got []*unstructured.Unstructured
	c := Collection{ID: "c", Version: "v1", Resource: "pods", Representation: string(entry.Unstructured)}
	err = Objects(ctx, client, c, Query{},
		func(u *unstructured.Unstructured) error { got = append(got, u); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(src.collections["c"].objects, got); d != "" {
		t.Error("objects:", d)
	}
}

func TestSocketPassesErrors(t *testing.T) {
	ctx := context.Background()
	boom := errors.New("record x is damaged")
	late := newFake(pod("a", "x", nil), pod("b", "y", nil))
	late.fail, late.failAt = boom, 1
	early := newFake(pod("a", "x", nil))
	early.fail, early.failAt = boom, 0
	client, _ := serve(t, &fakeSource{err: boom, collections: map[string]*fakeCollection{"late": late, "early": early}})

	if _, err := collect(ctx, client, Query{Collection: "none"}); !errors.Is(err, ErrNoCollection) {
		t.Errorf("no collection: %v", err)
	}
	got, err := collect(ctx, client, Query{Collection: "late"})
	if err == nil || !strings.Contains(err.Error(), boom.Error()) || len(got) != 1 {
		t.Errorf("in the middle: %v %v", got, err)
	}
	for what, f := range map[string]func() error{
		"at once": func() error { _, err := collect(ctx, client, Query{Collection: "early"}); return err },
		"status":  func() error { _, err := client.Status(ctx); return err },
		"check":   func() error { _, err := client.Check(ctx); return err },
		"compact": func() error { _, err := client.Compact(ctx); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), boom.Error()) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestCloseEndsStalledReader checks that Server.Close does not wait for a client that has stopped reading a stream. The
// client gets an error, so that the stream does not look complete.
func TestCloseEndsStalledReader(t *testing.T) {
	var many []*unstructured.Unstructured
	for i := range 3000 {
		u := pod("a", fmt.Sprintf("p%05d", i), nil)
		u.Object["filler"] = strings.Repeat("x", 4096)
		many = append(many, u)
	}
	client, server := serve(t, &fakeSource{collections: map[string]*fakeCollection{"c": newFake(many...)}})
	first, resume := make(chan struct{}), make(chan struct{})
	result := make(chan error, 1)
	go func() {
		n := 0
		result <- client.Entries(context.Background(), Query{Collection: "c"}, func(entry.Entry) error {
			if n++; n == 1 {
				close(first)
				<-resume
			}
			return nil
		})
	}()
	<-first
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	close(resume)
	if err := <-result; !errors.Is(err, errBroken) {
		t.Errorf("got %v, want errBroken", err)
	}
}

// TestEntriesInBlocks checks that the entries of several blocks, of which one is larger than a block, arrive unchanged.
func TestEntriesInBlocks(t *testing.T) {
	var many []*unstructured.Unstructured
	for i := range 1000 {
		u := pod("a", fmt.Sprintf("p%04d", i), nil)
		u.Object["filler"] = strings.Repeat("x", 1024)
		if i == 500 {
			u.Object["filler"] = strings.Repeat("x", 2*layout.BlockTarget)
		}
		many = append(many, u)
	}
	src := &fakeSource{collections: map[string]*fakeCollection{"c": newFake(many...)}}
	client, _ := serve(t, src)
	var want, got []entry.Entry
	for of, all := range map[Source]*[]entry.Entry{src: &want, client: &got} {
		must(t, of.Entries(t.Context(), Query{Collection: "c"}, func(e entry.Entry) error {
			*all = append(*all, e)
			return nil
		}))
	}
	if len(got) != len(many) || !reflect.DeepEqual(want, got) {
		t.Errorf("%d entries, which differ from the %d of the source", len(got), len(want))
	}
}

func TestAnswerWithoutEnd(t *testing.T) {
	server := &fakeSync{other: func(w http.ResponseWriter, _ *http.Request) {
		_ = newOutput(w).send(layout.AppendRecord(nil, entry.Entry{Key: "a/x"}), true)
	}}
	if _, err := collect(t.Context(), server.dial(t), Query{Collection: "c"}); !errors.Is(err, errBroken) {
		t.Errorf("got %v, want errBroken", err)
	}
}

// fakeSync is a fake of a larder sync that listens on the socket beside a store. It describes itself to a new client.
// The handler sync answers later requests for the description, and the handler other all other requests.
type fakeSync struct{ sync, other http.HandlerFunc }

func (f *fakeSync) dial(t *testing.T) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", mustSocketPath(t, path))
	must(t, err)
	var asked atomic.Bool
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != pathSync:
			f.other(w, r)
			return
		case asked.Swap(true):
			f.sync(w, r)
		}
		_, _ = w.Write([]byte(`{"pid":1}`))
	})}
	go func() { _ = server.Serve(l) }()
	client, _, err := Dial(t.Context(), path)
	must(t, err)
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Close()
	})
	return client
}

// TestAnotherVersion checks that the error of different protocol versions names the versions of the larder sync and of
// the client.
func TestAnotherVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path)
	must(t, err)
	server := NewServer(&fakeSource{}, me)
	server.Start(l)
	defer server.Close()
	client, _, err := Dial(t.Context(), path)
	must(t, err)
	defer client.Close()
	_, err = client.send(t.Context(), http.MethodGet, "/larder/v99/records", nothing{})
	for _, name := range []string{me.Version, Version(), "/larder/v99/records"} {
		if !errors.Is(err, ErrOtherVersion) || !strings.Contains(err.Error(), name) {
			t.Errorf("a client of a later version: %v, without %s", err, name)
		}
	}
	older := (&fakeSync{other: http.NotFound}).dial(t)
	if _, err := older.Status(t.Context()); !errors.Is(err, ErrOtherVersion) || !strings.Contains(err.Error(), Version()) {
		t.Errorf("a sync of an earlier version: %v", err)
	}
}

// lingering is a Holder whose Entries method returns only some time after the request was canceled.
type lingering struct {
	fakeSource
	started, closed chan struct{}
	early           bool
}

func (l *lingering) Entries(ctx context.Context, _ Query, _ func(entry.Entry) error) error {
	close(l.started)
	<-ctx.Done()
	select {
	case <-l.closed:
		l.early = true
	case <-time.After(100 * time.Millisecond):
	}
	return ctx.Err()
}

// TestCloseWaitsForHandlers checks that no request uses the store any more when Server.Close returns, since the store
// is closed next.
func TestCloseWaitsForHandlers(t *testing.T) {
	l := &lingering{started: make(chan struct{}), closed: make(chan struct{})}
	client, server := serve(t, l)
	result := make(chan error, 1)
	go func() {
		_, err := collect(context.Background(), client, Query{Collection: "c"})
		result <- err
	}()
	<-l.started
	err := server.Close()
	early := l.early
	close(l.closed)
	if err != nil || early {
		t.Errorf("Close returned %v before the handler had ended: %t", err, early)
	}
	if err := <-result; err == nil {
		t.Error("the client has not noticed")
	}
}
