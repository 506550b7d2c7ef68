package cli

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/store"
)

// A sync whose store has gone away must end with an error, not stay up with nothing to do.
func TestMirrorEndsWithItsInformers(t *testing.T) {
	server := startServer(t)
	st, err := store.Open(filepath.Join(t.TempDir(), "s"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := &mirror{File: source.NewFile(st)}
	for _, r := range []resource{pods, deployments} {
		mb, err := newMember(st, server.Config(), r, store.Identity{GroupVersionResource: r.GroupVersionResource, Representation: store.Unstructured}, false)
		if err != nil {
			t.Fatal(err)
		}
		m.members = append(m.members, mb)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if err := m.run(t.Context()); !errors.Is(err, errStopped) {
		t.Errorf("got %v", err)
	}
}

func TestSyncWaitsForAReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	create, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := create.Close(); err != nil {
		t.Fatal(err)
	}
	reader, err := store.Open(path, store.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = openForSync(context.Background(), path, -time.Second, logr.Discard())
	wantError(t, err, store.ErrLocked.Error(), "find the process")
	if !errors.Is(err, store.ErrLocked) {
		t.Error(err)
	}
	waiting := make(chan struct{})
	logger := logr.New(&signalSink{LogSink: logr.Discard().GetSink(), said: waiting})
	go func() {
		<-waiting
		_ = reader.Close()
	}()
	st, err := openForSync(context.Background(), path, time.Minute, logger)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}

// signalSink closes said at the first message.
type signalSink struct {
	logr.LogSink
	said chan struct{}
}

func (s *signalSink) Init(logr.RuntimeInfo)          {}
func (s *signalSink) Enabled(int) bool               { return true }
func (s *signalSink) Error(error, string, ...any)    {}
func (s *signalSink) WithValues(...any) logr.LogSink { return s }
func (s *signalSink) WithName(string) logr.LogSink   { return s }
func (s *signalSink) Info(int, string, ...any) {
	select {
	case <-s.said:
	default:
		close(s.said)
	}
}
