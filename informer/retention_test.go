package informer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store"
)

// TestAgeOf: a clock that jumps between two processes makes nothing served that would not be, but for one that is behind the last contact, or was not set then.
func TestAgeOf(t *testing.T) {
	stored := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	unset := time.Unix(600, 0)
	for what, tt := range map[string]struct {
		read  time.Time
		since time.Duration
		want  time.Duration
	}{
		"at once":                 {read: stored},
		"a day later":             {read: stored.Add(24 * time.Hour), since: time.Minute, want: 24*time.Hour + time.Minute},
		"set back by an hour":     {read: stored.Add(-time.Hour), since: time.Minute, want: time.Minute},
		"without a clock":         {read: time.Unix(0, 0), since: 3 * time.Hour, want: 3 * time.Hour},
		"ten years ahead":         {read: stored.AddDate(10, 0, 0), want: stored.AddDate(10, 0, 0).Sub(stored)},
		"in another time zone":    {read: stored.Add(time.Hour).In(time.FixedZone("x", 3600)), want: time.Hour},
		"running for a long time": {read: stored.Add(time.Hour), since: 1000 * time.Hour, want: 1001 * time.Hour},
	} {
		if got := ageOf(stored, tt.read, tt.since); got != tt.want {
			t.Errorf("%s: %v, want %v", what, got, tt.want)
		}
		if got := ageOf(unset, tt.read, tt.since); got != tt.since {
			t.Errorf("%s, stored by an unset clock: %v, want %v", what, got, tt.since)
		}
	}
}

// reads calls every method that reads, and returns what each says: its error, or how much it has found.
func reads(i *Informer) map[string]any {
	out := map[string]any{}
	note := func(name string, found int, err error) {
		if out[name] = found; err != nil {
			out[name] = err
		}
	}
	x, r, ctx := i.GetIndexer(), i.Reader(), context.Background()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "1"}}
	_, _, err := x.GetByKey("a/1")
	note("GetByKey", 1, err)
	_, _, err = i.GetStore().Get(pod)
	note("Get", 1, err)
	objs, err := x.Index(cache.NamespaceIndex, pod)
	note("Index", len(objs), err)
	objs, err = x.ByIndex(cache.NamespaceIndex, "a")
	note("ByIndex", len(objs), err)
	keys, err := x.IndexKeys(cache.NamespaceIndex, "a")
	note("IndexKeys", len(keys), err)
	obj, err := r.Get(ctx, "a/1")
	note("Reader.Get", 1, err)
	_ = obj
	list, err := r.List(ctx)
	note("Reader.List", len(list), err)
	keys, err = r.Keys(ctx)
	note("Reader.Keys", len(keys), err)
	each := func(string, runtime.Object) error { return nil }
	note("Reader.Iterate", 1, r.Iterate(ctx, "", each))
	note("Reader.Each", 1, r.Each(ctx, store.Query{}, each))
	list, err = r.Select(ctx, store.Query{})
	note("Reader.Select", len(list), err)
	list, err = r.ByIndex(ctx, cache.NamespaceIndex, "a")
	note("Reader.ByIndex", len(list), err)
	keys, err = r.IndexKeys(ctx, cache.NamespaceIndex, "a")
	note("Reader.IndexKeys", len(keys), err)
	keys, err = r.IndexValues(ctx, cache.NamespaceIndex)
	note("Reader.IndexValues", len(keys), err)
	return out
}

// wantServed checks that everything can be read, or nothing.
func wantServed(t *testing.T, i *Informer, when string, served bool) {
	t.Helper()
	for name, got := range reads(i) {
		err, failed := got.(error)
		if failed == served || failed && !errors.Is(err, ErrStale) || !failed && got == 0 {
			t.Errorf("%s: %s says %v", when, name, got)
		}
	}
	x := i.GetIndexer()
	for name, n := range map[string]int{"List": len(x.List()), "ListKeys": len(x.ListKeys()), "ListIndexFuncValues": len(x.ListIndexFuncValues(cache.NamespaceIndex))} {
		if n > 0 != served {
			t.Errorf("%s: %s finds %d", when, name, n)
		}
	}
	s := i.Status()
	if stale := s.Source == Stale; stale == served || errors.Is(s.Err, ErrStale) == served || errors.Is(i.Stale(), ErrStale) == served {
		t.Errorf("%s: source %s, %v, Stale %v", when, s.Source, s.Err, i.Stale())
	}
}

func fails(string, metav1.ListOptions) error { return errors.New("from the test") }

// failsToWatch is a server that answers, and of which one learns nothing.
func failsToWatch(verb string, _ metav1.ListOptions) error {
	if verb == "watch" {
		return errors.New("from the test")
	}
	return nil
}

func newAgeingRig(t *testing.T) *rig {
	r := newRig(t)
	r.o.RefuseAfter, r.o.Indexers = time.Hour, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	r.srv.write("a/1", "x")
	r.srv.write("a/2", "x")
	return r
}

// TestRefuseAfter: an outage that lasts too long, in which handlers hear nothing; and when it has ended the informer goes on, with no list.
func TestRefuseAfter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newAgeingRig(t)
		r.o.ResyncPeriod = 25 * time.Minute
		h := &recorder{}
		i := r.start(h)
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		wantServed(t, i, "after hours of contact", true)
		r.srv.bookmark()
		synctest.Wait()
		r.srv.setFail(fails)
		r.srv.disconnect()
		r.srv.write("a/1", "y")
		r.srv.delete("a/2")
		time.Sleep(time.Hour - time.Second)
		synctest.Wait()
		wantServed(t, i, "just before the limit", true)
		h.take()
		time.Sleep(time.Minute)
		wantServed(t, i, "after it", false)
		if _, err := i.AddEventHandler(&recorder{}); !errors.Is(err, ErrStale) {
			t.Errorf("a handler was added: %v", err)
		}
		r.srv.setFail(failsToWatch)
		time.Sleep(time.Hour)
		synctest.Wait()
		wantServed(t, i, "with a server that sends nothing", false)
		equal(t, "calls meanwhile", h.take(), nil)
		r.srv.setFail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		wantServed(t, i, "with the server", true)
		equal(t, "calls then", h.take(), []string{"update a/1@101=x to a/1@103=y", "delete a/2@104=x"})
		if _, err := i.AddEventHandler(&recorder{}); err != nil {
			t.Errorf("a handler was refused: %v", err)
		}
		if lists, _ := r.srv.requests(); lists != 1 {
			t.Errorf("%d lists", lists)
		}
		r.close()
	})
}

// TestRefuseAfterAtTheStart: what is too old is neither served nor told before the server has sent something, and handlers are told of what was stored before
// they are told of what has changed. What a run before has confirmed counts.
func TestRefuseAfterAtTheStart(t *testing.T) {
	for _, policy := range []SyncPolicy{Resumed, Disk} {
		t.Run(string(policy), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newAgeingRig(t)
				r.o.SyncPolicy = policy
				r.start()
				r.close()
				r.srv.setFail(fails)
				time.Sleep(59 * time.Minute)
				i := r.start()
				wantServed(t, i, "before the limit", true)
				time.Sleep(2 * time.Minute)
				wantServed(t, i, "after it, in the same run", false)
				r.close()
				r.srv.write("a/1", "y")
				r.srv.delete("a/2")
				h := &recorder{}
				i = r.start(h)
				time.Sleep(time.Hour)
				synctest.Wait()
				wantServed(t, i, "too old at the start", false)
				equal(t, "calls", h.take(), nil)
				if i.HasSynced() {
					t.Error("synced")
				}
				r.srv.setFail(failsToWatch)
				time.Sleep(time.Minute)
				synctest.Wait()
				wantServed(t, i, "with a server that sends nothing", false)
				r.close() // what a probe says must not be taken for contact by the next start
				i = r.start(h)
				wantServed(t, i, "after a probe", false)
				equal(t, "calls", h.take(), nil)
				r.srv.setFail(nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				wantServed(t, i, "with the server", true)
				equal(t, "calls then", h.take(), []string{"add a/1@101=x initial", "add a/2@102=x initial", "update a/1@101=x to a/1@103=y", "delete a/2@104=x"})
				if lists, _ := r.srv.requests(); lists != 1 || !i.HasSynced() {
					t.Errorf("%d lists, synced %v", lists, i.HasSynced())
				}
				r.close()
				r.srv.setFail(fails)
				time.Sleep(58 * time.Minute)
				wantServed(t, r.start(), "soon after", true)
				r.close()
			})
		})
	}
}

// TestRefuseAfterAColdStart: what was never listed is no stale state.
func TestRefuseAfterAColdStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newAgeingRig(t)
		r.srv.setFail(fails)
		i := r.start()
		time.Sleep(10 * time.Hour)
		if s := i.Status(); s.Source != None || i.Stale() != nil {
			t.Errorf("source %s, %v", s.Source, i.Stale())
		}
		r.srv.setFail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		wantServed(t, i, "after the first list", true)
		r.srv.setFail(fails)
		r.srv.compact() // the next contact is a list
		r.srv.write("a/3", "x")
		time.Sleep(2 * time.Hour)
		wantServed(t, i, "before the second", false)
		r.srv.setFail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		wantServed(t, i, "after it", true)
		equal(t, "what is stored", r.stored(), r.srv.state())
		r.close()
	})
}

// TestRefuseAfterAndDurableHandlers: a durable handler is not told of what is too old either, and one that registers meanwhile is refused.
func TestRefuseAfterAndDurableHandlers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newAgeingRig(t)
		r.start()
		r.close()
		r.srv.setFail(fails)
		time.Sleep(2 * time.Hour)
		h := &durableRecorder{}
		i := r.startDurable("h", h)
		time.Sleep(time.Hour)
		synctest.Wait()
		equal(t, "calls", h.take(), nil)
		r.srv.setFail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "calls then", h.take(), []string{"reset new", "+ a/1@101=x", "+ a/2@102=x", "replayed"})
		r.srv.setFail(fails)
		r.srv.disconnect()
		time.Sleep(2 * time.Hour)
		if _, err := i.AddDurableHandler("late", &durableRecorder{}); !errors.Is(err, ErrStale) {
			t.Errorf("a handler that registers: %v", err)
		}
		r.close()
	})
}
