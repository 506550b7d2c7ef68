//go:build unix

package informer_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

// TestOverwrittenFile copies another file over the open store file. The run must end within a minute with an error, and
// serve no contents of the other file. Issue 37.
func TestOverwrittenFile(t *testing.T) {
	for name, busy := range map[string]bool{"at rest": false, "with events": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.srv.write("a/1", "x")
				i := r.start()
				before := r.stored()
				overwrite(t, r.path, emptyStore(t))
				if busy {
					r.srv.write("a/2", "x")
				}
				select {
				case <-r.done:
				case <-time.After(time.Minute):
					t.Fatal("the run has not ended")
				}
				synctest.Wait()
				if s := i.Status(); !errors.Is(s.Err, store.ErrOverwritten) || s.Source == informer.Live {
					t.Errorf("source %s, %v", s.Source, s.Err)
				}
				if r.o.Residency == store.All {
					if got := r.stored(); len(got) < len(before) {
						t.Errorf("reads of what is in memory: %q, want %q and more", got, before)
					}
				} else if objs, err := informer.Store(i).List(t.Context()); !errors.Is(err, store.ErrOverwritten) {
					t.Errorf("a read: %d objects, %v", len(objs), err)
				}
				if err := r.st.Close(); !errors.Is(err, store.ErrOverwritten) {
					t.Errorf("close the store: %v", err)
				}
			})
		})
	}
}

func emptyStore(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "backup.db")
	st, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	backup, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return backup
}

// overwrite copies bytes over the file at path and keeps its inode, like cp.
func overwrite(t *testing.T, path string, bytes []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(bytes); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
