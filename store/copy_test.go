package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

func mustOpenCopy(t *testing.T, path string) *store.Store {
	t.Helper()
	s := mustOpen(t, path, store.Options{ReadOnly: true})
	wantSound(t, s)
	return s
}

func TestCopyTo(t *testing.T) {
	s, many, _ := filled(t, store.AtOnce(store.Options{}))
	last := somePod(0)
	last.ResourceVersion = "9000"
	if _, err := many.Apply(t.Context(), entry.Batch{ResourceVersion: "9000",
		Ops: []entry.Op{{Object: last}}}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	n, err := s.CopyTo(t.Context(), &out)
	if err != nil || n != int64(out.Len()) {
		t.Fatalf("%d bytes of %d, %v", n, out.Len(), err)
	}
	path := filepath.Join(t.TempDir(), "copy")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpenCopy(t, path))
	wantNames(t, filepath.Dir(path), "copy")

	c := mustOpen(t, path, store.Options{})
	defer mustClose(t, c)
	if n, info := count(t, mustCollection(t, c, pods())); n != 1000 || info.ResourceVersion != "9000" {
		t.Errorf("%d pods, %+v", n, info)
	}
	if n, _ := count(t, mustCollection(t, c, otherPods())); n != 200 {
		t.Errorf("%d pods in the other collection", n)
	}
}

// TestCopyCommitsDirtyChanges also checks that after a failed commit the copy has the last committed state.
func TestCopyCommitsDirtyChanges(t *testing.T) {
	for name, test := range map[string]struct {
		failure error
		rv      string
	}{"committed": {nil, "9000"}, "full": {fmt.Errorf("a test: %w", store.ErrNoSpace), "2000"}} {
		t.Run(name, func(t *testing.T) {
			gate := &hookGate{}
			s, many, _ := filled(t, store.Options{Hooks: gate.hooks(), CommitInterval: 1 << 40})
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			before := mustInfo(t, many).ResourceVersion
			last := somePod(0)
			last.ResourceVersion = "9000"
			if _, err := many.Apply(t.Context(), entry.Batch{ResourceVersion: "9000",
				Ops: []entry.Op{{Object: last}}}); err != nil {
				t.Fatal(err)
			}
			gate.fail.Store(&test.failure)
			name, err := s.CopyFile(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			none := error(nil)
			gate.fail.Store(&none)
			want := test.rv
			if test.failure != nil {
				want = before
			}
			infos, err := mustOpenCopy(t, name).Collections(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, info := range infos {
				if info.Identity.ID() == many.Identity().ID() && info.ResourceVersion != want {
					t.Errorf("the copy is at %s, want %s", info.ResourceVersion, want)
				}
			}
		})
	}
}

// endingWriter is an io.Writer that calls end after some writes.
type endingWriter struct {
	after int
	end   func() error
}

func (w *endingWriter) Write(p []byte) (int, error) {
	if w.after--; w.after < 0 {
		if err := w.end(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// TestCopyEnds checks that the store keeps working when CopyTo fails, because its context ended or its writer failed.
func TestCopyEnds(t *testing.T) {
	s, _, _ := filled(t, store.AtOnce(store.Options{}))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.CopyTo(ctx, &endingWriter{after: 2, end: func() error { cancel(); return nil }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	broken := errors.New("the pipe is broken")
	for after := range 3 {
		_, err = s.CopyTo(t.Context(), &endingWriter{after: after, end: func() error { return broken }})
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), s.Path()) {
			t.Errorf("a broken writer: %v", err)
		}
	}
	_, err = s.CopyTo(t.Context(), &endingWriter{end: func() error {
		return fmt.Errorf("of another store: %w",
			entry.ErrDamaged)
	}})
	if err == nil || s.Err() != nil {
		t.Errorf("a writer's damage is taken for the store's: %v, %v", err, s.Err())
	}
	mustClose(t, s)
	if _, err := s.CopyTo(t.Context(), &bytes.Buffer{}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestCopyOfATruncatedFile checks that CopyFile fails with ErrDamaged and leaves no copy.
func TestCopyOfATruncatedFile(t *testing.T) {
	s, _, _ := filled(t, store.AtOnce(store.Options{}))
	if err := os.Truncate(s.Path(), 16*int64(filePageSize)); err != nil {
		t.Fatal(err)
	}
	if name, err := s.CopyFile(t.Context()); !errors.Is(err, entry.ErrDamaged) || name != "" {
		t.Errorf("%q, %v", name, err)
	}
	// A failed store leaves the ".opening" file, so that the next process verifies the store.
	wantNames(t, filepath.Dir(s.Path()), "store", "store"+disk.SuffixOpening)
}

// TestCopyFile checks that the copy is private (0600), and that the next open for writing removes the copy.
func TestCopyFile(t *testing.T) {
	s, many, _ := filled(t, store.AtOnce(store.Options{}))
	mustUpdate(t, many)
	name, err := s.CopyFile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 || !strings.HasPrefix(name, s.Path()+disk.SuffixNew) {
		t.Errorf("%s: %v, %v", name, info.Mode(), err)
	}
	mustClose(t, mustOpenCopy(t, name))
	// After a compaction CopyFile must copy the compacted file.
	if _, err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, err := s.CopyFile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpenCopy(t, second))
	if after, err := os.Stat(second); err != nil || after.Size() >= info.Size() {
		t.Errorf("the copy after the compaction is that of the old file: %v, %v", after, err)
	}
	mustClose(t, s)
	mustClose(t, mustOpen(t, s.Path(), store.Options{}))
	wantNames(t, filepath.Dir(name), "store")
}

func TestCopyUnderWrites(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.AtOnce(store.Options{}))
	c, err := openCompactPods(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := compactStep(c, 1); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for n := uint64(2); ; n++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := compactStep(c, n); err != nil {
				done <- err
				return
			}
		}
	}()
	for range 10 {
		name, err := s.CopyFile(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		copied := mustOpenCopy(t, name)
		records := mustRecords(t, copied, pods())
		infos, err := copied.Collections(t.Context())
		if err != nil || len(infos) != 1 || len(records) != compactPods {
			t.Fatalf("%+v, %d records, %v", infos, len(records), err)
		}
		for _, r := range records {
			if r.ResourceVersion != infos[0].ResourceVersion {
				t.Fatalf("%s is at %s, the collection at %s", r.Key, r.ResourceVersion, infos[0].ResourceVersion)
			}
		}
		mustClose(t, copied)
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
