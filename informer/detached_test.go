package informer

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store"
)

// successor returns the rig of a process that replaces that of r and does not wait for its file.
func (r *rig) successor() *rig {
	return &rig{t: r.t, srv: r.srv, path: r.path, o: r.o, so: store.Options{MemoryWhileLocked: true, LockTimeout: -1}}
}

// awaitFile gives the store time to take its file.
func (r *rig) awaitFile() {
	r.t.Helper()
	time.Sleep(5 * time.Second)
	synctest.Wait()
	if err := r.st.Detached(); err != nil {
		r.t.Fatalf("the file is free, and the store is still in memory: %v", err)
	}
}

// TestRollingUpdate: an informer whose predecessor has the file lists, is synced and says that it is in memory; when the file is free it goes there, and handlers, who are told
// nothing of that, miss nothing and hear of nothing twice. The next start resumes.
func TestRollingUpdate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newRig(t)
		a.o.PageSize = 2
		for _, key := range []string{"a/1", "a/2", "b/1"} {
			a.srv.write(key, "x")
		}
		a.start()
		b := a.successor()
		h := &recorder{}
		i := b.start(h)
		equal(t, "in memory", h.take(), []string{"add a/1@101=x initial", "add a/2@102=x initial", "add b/1@103=x initial"})
		s := i.Status()
		if !s.Synced || s.Source != Live || s.Persistent || !strings.Contains(s.NotPersistent, "this process has it open already") || i.File() != nil {
			t.Errorf("in memory: %+v", s)
		}
		a.srv.write("a/1", "y")
		a.srv.delete("b/1")
		synctest.Wait()
		equal(t, "events", h.take(), []string{"update a/1@101=x to a/1@104=y", "delete b/1@105=x"})
		a.close()
		a.srv.write("c/1", "x")
		b.awaitFile()
		a.srv.write("c/1", "y")
		a.srv.delete("a/2")
		synctest.Wait()
		equal(t, "while the file came, and after", h.take(), []string{"add c/1@106=x", "update c/1@106=x to c/1@107=y", "delete a/2@108=x"})
		if s := i.Status(); !s.Persistent || s.NotPersistent != "" || s.Source != Live || s.Err != nil || i.File() != b.st {
			t.Errorf("with the file: %+v", s)
		}
		equal(t, "store", b.stored(), a.srv.state())
		b.close()

		lists, _ := a.srv.requests()
		a.srv.write("d/1", "x")
		h = &recorder{}
		b.start(h)
		equal(t, "the next", h.take(), []string{"add a/1@104=y initial", "add c/1@107=y initial", "add d/1@109=x initial"})
		if now, _ := a.srv.requests(); now != lists {
			t.Errorf("%d lists", now-lists)
		}
		b.close()
	})
}

// TestRollingUpdateOffline: with no server there is nothing in memory, and the file's contents are served as soon as it is free: to handlers, and to those who come later. When the
// server is back the watch is resumed.
func TestRollingUpdateOffline(t *testing.T) {
	for name, many := range map[string]int{"One": 1, "Many": 5} { // several have one that tries to connect, and others that wait
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				a := newRig(t)
				a.o.SyncPolicy = Disk
				a.srv.write("a/1", "x")
				a.srv.write("a/2", "x")
				a.start()
				var mu sync.Mutex
				down := true
				fail := func(string, metav1.ListOptions) error {
					mu.Lock()
					defer mu.Unlock()
					if down {
						return errors.New("no route to host")
					}
					return nil
				}
				a.srv.setFail(fail)
				b := a.successor()
				var others []*rig
				h, late := &recorder{}, &recorder{}
				i := b.start(h)
				for n := range many - 1 {
					others = append(others, b.another("ns"+strconv.Itoa(n), fail))
				}
				if s := i.Status(); s.Synced || s.Source != None || s.Persistent {
					t.Errorf("with nothing: %+v", s)
				}
				time.Sleep(time.Minute)
				a.close()
				b.awaitFile()
				stored := []string{"add a/1@101=x initial", "add a/2@102=x initial"}
				equal(t, "from the file", h.take(), stored)
				if s := i.Status(); !s.Synced || s.Source != FromDisk || !s.Persistent || s.LastContact.IsZero() {
					t.Errorf("from the file: %+v", s)
				}
				if _, err := i.AddEventHandler(late); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				equal(t, "a late handler", late.take(), stored)
				lists, _ := a.srv.requests()
				a.srv.write("a/1", "y")
				a.srv.delete("a/2")
				mu.Lock()
				down = false
				mu.Unlock()
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				equal(t, "resumed", h.take(), []string{"update a/1@101=x to a/1@103=y", "delete a/2@104=x"})
				equal(t, "resumed, late", late.take(), []string{"update a/1@101=x to a/1@103=y", "delete a/2@104=x"})
				if now, _ := a.srv.requests(); many == 1 && now != lists {
					t.Errorf("%d lists", now-lists)
				}
				if s := i.Status(); s.Source != Live || s.Reflector.Resumes == 0 || len(s.Reflector.Relists) > 0 {
					t.Errorf("resumed: %+v", s)
				}
				equal(t, "store", b.stored(), a.srv.state())
				for _, other := range others {
					other.stop()
				}
				b.close()
			})
		})
	}
}

// another returns an informer on a namespace without objects, on the same store, which runs.
func (r *rig) another(namespace string, fail func(string, metav1.ListOptions) error) *rig {
	r.t.Helper()
	other := &rig{t: r.t, srv: newServer(), path: r.path, o: r.o, st: r.st}
	other.srv.setFail(fail)
	other.o.Store, other.o.Identity = r.st, podsIdentity
	other.o.Identity.Namespace = namespace
	var err error
	if other.i, err = New(other.srv, r.i.example, other.o); err != nil {
		r.t.Fatal(err)
	}
	other.run()
	return other
}

// TestRollingUpdateTooOld: what the file has is not told, nor served, if Options.RefuseAfter forbids it, before the server has been heard.
func TestRollingUpdateTooOld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newRig(t)
		a.o.SyncPolicy, a.o.RefuseAfter = Disk, time.Hour
		a.srv.write("a/1", "x")
		a.start()
		a.srv.setFail(func(string, metav1.ListOptions) error { return errors.New("no route to host") })
		a.srv.disconnect()
		time.Sleep(2 * time.Hour)
		b := a.successor()
		h := &recorder{}
		i := b.start(h)
		a.close()
		b.awaitFile()
		equal(t, "told", h.take(), nil)
		if s := i.Status(); s.Source != Stale || s.Synced {
			t.Errorf("%+v", s)
		}
		if _, _, err := i.GetIndexer().GetByKey("a/1"); !errors.Is(err, ErrStale) {
			t.Errorf("read: %v", err)
		}
		a.srv.write("a/1", "y")
		a.srv.setFail(nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		equal(t, "told after contact", h.take(), []string{"add a/1@101=x initial", "update a/1@101=x to a/1@102=y"})
		if s := i.Status(); s.Source != Live || !s.Synced {
			t.Errorf("%+v", s)
		}
		b.close()
	})
}

// TestRollingUpdateDurably: a durable handler is not told of anything without a file, and goes on from its place when there is one: what has changed since, once.
func TestRollingUpdateDurably(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newRig(t)
		for _, key := range []string{"a/1", "a/2", "a/3"} {
			a.srv.write(key, "x")
		}
		old := &durableRecorder{}
		a.startDurable("h", old)
		time.Sleep(3 * time.Second)
		if n := len(old.take()); n != 5 {
			t.Fatalf("%d calls", n)
		}
		b := a.successor()
		h := &durableRecorder{}
		i := b.startDurable("h", h)
		if _, err := i.AddDurableHandler("h", h); !errors.Is(err, store.ErrHandlerOpen) {
			t.Errorf("a second of that name: %v", err)
		}
		time.Sleep(time.Minute)
		d := i.Status().Durable
		if got := h.take(); len(got) > 0 || len(d) != 1 || !errors.Is(d[0].Err, store.ErrDetached) {
			t.Errorf("without a file: told %q, %+v", got, d)
		}
		a.stop()
		a.srv.write("a/1", "y")
		a.srv.delete("a/2")
		time.Sleep(3 * time.Second)
		a.close()
		b.awaitFile()
		time.Sleep(3 * time.Second)
		got := h.take()
		equal(t, "with the file", got, []string{"+ a/1@104=y", "- a/2@102=x"})
		if d := i.Status().Durable; d[0].Err != nil {
			t.Errorf("%+v", d)
		}
		a.srv.write("a/4", "x")
		time.Sleep(3 * time.Second)
		equal(t, "after that", h.take(), []string{"+ a/4@106=x"})
		b.close()
	})
}

// TestStopWhileDetached: an informer ends, and the store closes, as ever.
func TestStopWhileDetached(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newRig(t)
		a.srv.write("a/1", "x")
		a.start()
		b := a.successor()
		i := b.startDurable("h", &durableRecorder{})
		if !cache.IsDone(i.HasSyncedChecker()) {
			t.Error("not synced")
		}
		b.close()
		equal(t, "the file", a.stored(), a.srv.state())
		a.close()
	})
}
