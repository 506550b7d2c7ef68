package store

import (
	"context"
	"errors"
	"fmt"
	"testing"

	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/format"
)

// The tests in this file arrange an order of steps that no hook of the exported API can arrange.

func podAt(i int, rv string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: fmt.Sprintf("namespace-%d", i%5), Name: fmt.Sprintf("pod-%04d", i), ResourceVersion: rv,
	}}
}

func openInside(t *testing.T, r Residency) (*Store, *Collection) {
	t.Helper()
	s, err := Open(t.TempDir()+"/store", Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	id := entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}
	return s, mustOpenInside(t, s, id, r)
}

func mustOpenInside(t *testing.T, s *Store, id entry.Identity, r Residency) *Collection {
	t.Helper()
	c, err := s.Collection(t.Context(), id, CollectionOptions{Residency: r, Codec: mustCodec(t, &corev1.Pod{})})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// late returns the identity of a second collection, which the tests open later.
func late() entry.Identity {
	return entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
		Namespace: "late"}
}

func wantWritten(t *testing.T, s *Store, c *Collection) {
	t.Helper()
	batch := entry.Batch{Ops: []entry.Op{{Object: podAt(1, "7")}}, ResourceVersion: "7"}
	if _, err := c.Apply(t.Context(), batch); err != nil {
		t.Error(err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	if r, err := s.Check(t.Context()); err != nil || len(r.Problems) > 0 || r.Objects != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestOpenWhileRebuilding checks that a collection that is being opened while Rebuild replaces the file is opened
// again, since Rebuild did not copy it to the new file.
func TestOpenWhileRebuilding(t *testing.T) {
	s, _ := openInside(t, None)
	before := s.live.rebuildCount()
	id := late()
	c, err := openCollection(t.Context(), s, id.ID(), id,
		CollectionOptions{Residency: None, Codec: mustCodec(t, &corev1.Pod{})})
	if err != nil {
		t.Fatal(err)
	}
	s.file.Fail(handleOf(s), ErrOutcomeUnknown)
	if err := s.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	if enlisted, err := s.enlist(t.Context(), c, before); enlisted || err != nil {
		t.Errorf("enlisted %t, %v", enlisted, err)
	}
	c.core.Workers.Stop()

	resume, err := s.file.PauseExchanges(t.Context()) // pauses exchanges of the file, as a running Rebuild does
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if enlisted, err := s.enlist(ctx, c, s.live.rebuildCount()); enlisted || !errors.Is(err, context.Canceled) {
		t.Errorf("while one is at work: enlisted %t, %v", enlisted, err)
	}
	resume()
	wantWritten(t, s, mustOpenInside(t, s, id, None))
}

// TestFileExchangedWhileOpening checks that a collection is opened again if the file is replaced during its opening.
func TestFileExchangedWhileOpening(t *testing.T) {
	s, _ := openInside(t, None)
	id := late()
	exchanged := false
	s.file.Commit = func(commit func() error) error {
		if err := commit(); err != nil || exchanged {
			return err
		}
		exchanged = true
		s.live.rebuilt(nil)
		return handleOf(s).DB.Update(func(tx *bolt.Tx) error {
			return tx.Bucket(format.BucketLarder).DeleteBucket([]byte(id.ID()))
		})
	}
	c := mustOpenInside(t, s, id, None)
	if !exchanged {
		t.Error("nothing was committed")
	}
	wantWritten(t, s, c)
}
