package informer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/store"
)

type witness struct {
	mu    sync.Mutex
	lines []string
	check func(*informer.Informer)
}

func (w *witness) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

func (w *witness) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.lines = nil }()
	return w.lines
}

func (w *witness) InformerMade(i *informer.Informer) { w.note("made %d", i.Status().Objects) }

// InformerEnded notes whether the collection can be opened at that time.
func (w *witness) InformerEnded(i *informer.Informer) {
	o := informer.OptionsOf(i)
	o.Observer = nil
	next := "open"
	atOnce, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := i.File().Collection(atOnce, i.Identity(), store.CollectionOptions{Codec: o.Codec}); errors.Is(err,
		store.ErrCollectionOpen) {
		next = "taken"
	}
	w.note("ended, collection %s", next)
}

func (w *witness) Committed(i *informer.Informer, c informer.Commit) {
	if w.check != nil {
		w.check(i)
	}
	w.note("commit %d, %v, failed %v", c.Changes, c.Took, c.Err != nil)
}

func (w *witness) HandlerCalled(_ *informer.Informer, handler string, took time.Duration) {
	w.note("%s %v", handler, took)
}

// TestObserver checks that the informer does not hold deltasMu during the calls of an Observer.
func TestObserver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		r.srv.write("a/2", "x")
		w := &witness{check: func(i *informer.Informer) {
			if !informer.Deltas(i).TryLock() {
				t.Error("called under deltasMu")
				return
			}
			informer.Deltas(i).Unlock()
		}}
		r.o.Observer, r.o.PageSize = w, 1
		var fail atomic.Bool
		r.so.Hooks = &hook.Hooks{Commit: func(commit func() error) error {
			if fail.Swap(false) {
				return syscall.ENOSPC
			}
			return commit()
		}}
		i := r.open()
		equal(t, "New", w.take(), []string{"made 0"})
		r.run()
		equal(t, "a cold start: the list is committed before it counts", w.take(), []string{"commit 2, 0s, failed false"})
		if _, err := i.AddEventHandler(&recorder{hook: func(line string) {
			time.Sleep(time.Duration(len(strings.Fields(line))) * time.Second)
		}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		equal(t, "a handler", w.take(), []string{"github.com/larder-dev/larder/informer_test.recorder 3s",
			"github.com/larder-dev/larder/informer_test.recorder 3s"})
		fail.Store(true)
		r.srv.delete("a/1")
		time.Sleep(time.Minute)
		got := w.take()
		equal(t, "a commit that fails once", got, []string{"commit 0, 0s, failed true", "commit 1, 0s, failed false",
			"github.com/larder-dev/larder/informer_test.recorder 2s"})
		r.stop()
		equal(t, "the end", w.take(), []string{"ended, collection taken"})
		r.close()
	})
}

// TestObserverSeesCommits checks that Observer.Committed counts changes that arrive during a paged first list, and the
// changes of a list that replaces an aborted list. Issue 3.
func TestObserverSeesCommits(t *testing.T) {
	commits := func(w *witness) (out []string) {
		for _, line := range w.take() {
			if strings.HasPrefix(line, "commit") {
				out = append(out, line)
			}
		}
		return out
	}
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for n := range 6 {
			r.srv.write(fmt.Sprintf("a/%d", n), "x")
		}
		r.srv.pageDelay = 10 * time.Second
		w := &witness{}
		r.o.Observer, r.o.PageSize = w, 2
		r.open()
		r.run()
		time.Sleep(1500 * time.Millisecond) // the store commits every second; write between two commits
		r.srv.write("a/0", "y")
		r.srv.write("a/9", "y")
		time.Sleep(500 * time.Millisecond)
		equal(t, "the first page", commits(w), []string{"commit 2, 0s, failed false"})
		time.Sleep(10 * time.Second)
		equal(t, "two changes during the first list, and the second page", commits(w),
			[]string{"commit 2, 0s, failed false", "commit 2, 0s, failed false"})
		r.srv.compact()
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "a list in place of one that was given up", commits(w), []string{"commit 2, 0s, failed false"})
		r.close()
	})
}

func TestObserverSeesPanics(t *testing.T) {
	survivePanics(t)
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		w := &witness{}
		r.o.Observer = w
		i := r.open()
		if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
			time.Sleep(time.Second)
			panic("from the test")
		}}); err != nil {
			t.Fatal(err)
		}
		r.run()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := w.take(); !slices.ContainsFunc(got,
			func(line string) bool { return strings.HasSuffix(line, "TestObserverSeesPanics.func1 1s") }) {
			t.Errorf("received %q", got)
		}
		r.close()
	})
}
