package informer_test

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

// failingFile stands for a store file that can fail.
type failingFile struct {
	mu     sync.Mutex
	err    error
	failed chan struct{} // failed is closed when the file fails
}

func (f *failingFile) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *failingFile) Failed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

func (f *failingFile) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	close(f.failed)
}

// TestReadersFindDamage checks that damage of a page that a reader finds ends the run with that error, although nothing
// is written, and that the file can still be read.
func TestReadersFindDamage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/0", "x")
		i := r.open()
		f := &failingFile{failed: make(chan struct{})}
		informer.SetFailure(i, f)
		r.run(&recorder{})
		f.fail(fmt.Errorf("page: %w", entry.ErrDamaged))
		<-r.done
		if s := i.Status(); !errors.Is(s.Err, entry.ErrDamaged) || s.Source == informer.Live || !i.IsStopped() {
			t.Errorf("stopped %v, status %+v", i.IsStopped(), s)
		}
		equal(t, "store", r.stored(), r.srv.state())
		r.close()
	})
}

// TestTruncatedWhileRunning checks that a run ends with ErrDamaged when its file is cut off, and that the next start
// serves the readable part without a server, and reaches the server's state with one.
func TestTruncatedWhileRunning(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.Residency = store.None
		for n := range 2000 {
			r.srv.write(fmt.Sprintf("a/%04d", n), "x")
		}
		i := r.start(&recorder{})
		if err := r.st.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(r.path, 64<<10); err != nil {
			t.Fatal(err)
		}
		for n := range 2000 {
			if _, _, err := i.GetIndexer().GetByKey(fmt.Sprintf("a/%04d", n)); err != nil {
				break
			}
		}
		<-r.done
		if s := i.Status(); !errors.Is(s.Err, entry.ErrDamaged) {
			t.Errorf("status %+v", s)
		}
		_ = r.st.Close()
		r.srv.setFail(refuse)
		i = r.start()
		if r.st.Quarantined() == "" || i.HasSynced() {
			t.Errorf("moved aside %q, synced %v", r.st.Quarantined(), i.HasSynced())
		}
		r.stored() // the readable part
		r.srv.setFail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "store", r.stored(), r.srv.state())
		r.close()
	})
}
