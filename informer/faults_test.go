package informer_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// TestNoSpace checks that nothing is stored or delivered on a full disk, that reads are served and the failure is
// reported once, and that no change is lost.
func TestNoSpace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		var reported []error
		h := &recorder{}
		i := r.open()
		f := &faultyStore{Interface: informer.Store(i)}
		informer.SetStore(i, f)
		if err := i.SetWatchErrorHandler(func(_ *cache.Reflector,
			err error) {
			reported = append(reported, err)
		}); err != nil {
			t.Fatal(err)
		}
		r.run(h)
		before := r.stored()
		h.take()

		f.set(fmt.Errorf("commit: %w", store.ErrNoSpace), -1)
		r.srv.write("a/1", "y")
		r.srv.delete("a/1")
		r.srv.write("a/2", "x")
		time.Sleep(time.Minute)
		synctest.Wait()
		s := i.Status()
		if !errors.Is(s.Err, store.ErrNoSpace) || s.Pending == 0 || s.ResourceVersion != "101" || s.Source == informer.Live {
			t.Errorf("status with a full disk: %+v", s)
		}
		equal(t, "reads", r.stored(), before)
		equal(t, "calls while nothing is stored", h.take(), nil)
		late := &recorder{}
		if _, err := i.AddEventHandler(late); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		equal(t, "a handler that registers meanwhile", late.take(), []string{"add a/1@101=x initial"})
		if n := f.failed(); n < 5 || n > 40 {
			t.Errorf("%d attempts in a minute", n)
		}

		f.set(nil, 0)
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []string{"update a/1@101=x to a/1@102=y", "delete a/1@103=y", "add a/2@104=x"}
		equal(t, "calls after space has returned", h.take(), want)
		equal(t, "the late handler", late.take(), want)
		equal(t, "store", r.stored(), r.srv.state())
		if s := i.Status(); s.Err != nil || s.Source != informer.Live || s.Pending != 0 {
			t.Errorf("status after space has returned: %+v", s)
		}
		if len(reported) != 1 || !errors.Is(reported[0], store.ErrNoSpace) {
			t.Errorf("the watch error handler got %v, want one ErrNoSpace", reported)
		}
		r.close()
	})
}

func TestNoSpaceBlocksTheReflector(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		i := r.open()
		f := &faultyStore{Interface: informer.Store(i)}
		informer.SetStore(i, f)
		h := &recorder{}
		r.run(h)
		f.set(store.ErrNoSpace, -1)
		n := 20000
		for n := range n {
			r.srv.write(fmt.Sprintf("a/%05d", n), "x")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if p := i.Status().Pending; p < 1000 || p > 9000 {
			t.Errorf("%d pending of %d", p, n)
		}
		f.set(nil, 0)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := len(h.take()); got != n {
			t.Errorf("%d calls, want %d", got, n)
		}
		r.close()
	})
}

func TestNoSpaceDuringAList(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.PageSize = 2
		for n := range 5 {
			r.srv.write(fmt.Sprintf("a/%d", n), "x")
		}
		h := &recorder{}
		i := r.open()
		f := &faultyStore{Interface: informer.Store(i)}
		informer.SetStore(i, f)
		f.set(store.ErrNoSpace, 3)
		r.run(h)
		time.Sleep(time.Minute)
		synctest.Wait()
		known := map[string]string{}
		replay(t, known, h.take())
		equal(t, "handler", sortedValues(known), r.srv.state())
		if !i.HasSynced() || f.failed() != 3 {
			t.Errorf("synced %v after %d failures", i.HasSynced(), f.failed())
		}
		r.srv.write("a/1", "y")
		r.srv.delete("a/2")
		synctest.Wait()
		r.srv.compact()
		f.set(store.ErrNoSpace, 4)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		replay(t, known, h.take())
		equal(t, "handler after a relist", sortedValues(known), r.srv.state())
		equal(t, "store after a relist", r.stored(), r.srv.state())
		r.close()
	})
}

// TestOutcomeUnknown checks a write that may or may not have reached the file: no handler may miss a change.
func TestOutcomeUnknown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		r.srv.write("a/2", "x")
		h := &recorder{}
		i := r.open()
		f := &faultyStore{Interface: informer.Store(i)}
		informer.SetStore(i, f)
		r.run(h)
		h.take()
		f.set(store.ErrOutcomeUnknown, 3)
		r.srv.write("a/3", "x")
		synctest.Wait()
		r.srv.delete("a/2")
		r.srv.write("a/1", "y")
		time.Sleep(time.Minute)
		synctest.Wait()
		got := h.take()
		for _, key := range []string{"a/1@105=y", "a/2@104=x", "a/3@103=x"} {
			if !slices.ContainsFunc(got, func(l string) bool { return mentions(l, key) }) {
				t.Errorf("no call about %s in %q", key, got)
			}
		}
		if n := f.failed(); n != 3 {
			t.Errorf("%d failures", n)
		}
		equal(t, "store", r.stored(), r.srv.state())
		r.close()
	})
}

// TestContradictedByAWriteOfUnknownOutcome checks that the retry of a write does not hide that its event contradicts
// the stored objects.
func TestContradictedByAWriteOfUnknownOutcome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for n := range 40 {
			r.srv.write(fmt.Sprintf("a/%02d", n), "x")
		}
		i := r.open()
		f := &faultyStore{Interface: informer.Store(i)}
		informer.SetStore(i, f)
		r.run()
		r.srv.setSilent(true)
		r.srv.write("a/lost", "x")
		r.srv.delete("a/00")
		r.srv.setSilent(false)
		f.set(store.ErrOutcomeUnknown, 1)
		r.srv.write("a/lost", "y")
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "store", r.stored(), r.srv.state())
		s := i.Status()
		if rs := s.Reflector.Relists; rs[reflector.ReasonRewound] != 1 || len(rs) != 1 || s.Source != informer.Live {
			t.Errorf("relists %v, source %s", rs, s.Source)
		}
		r.close()
	})
}

func mentions(line, description string) bool {
	return len(line) >= len(description) && line[len(line)-len(description):] == description
}

type poisonCodec struct{ codec.Codec }

func (c poisonCodec) Decode(data []byte) (runtime.Object, error) {
	obj, err := c.Codec.Decode(data)
	if err == nil && obj.(*corev1.Pod).Labels["value"] == "poison" {
		return nil, errors.New("from the test")
	}
	return obj, err
}

// TestUndecodable checks that handlers that register early or late get the other objects. A list rewrites all objects,
// and the undecodable object returns with its next change.
func TestUndecodable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		codec, err := codec.For(&corev1.Pod{})
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t)
		r.srv.write("a/1", "x")
		r.srv.write("a/2", "poison")
		r.srv.write("a/3", "x")
		r.start()
		r.close()

		r.o.Codec = poisonCodec{codec}
		r.srv.setFail(refuse)
		early, late := &recorder{}, &recorder{}
		i := r.start(early)
		if _, err := i.AddEventHandler(late); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want := []string{"add a/1@101=x initial", "add a/3@103=x initial"}
		equal(t, "early", early.take(), want)
		equal(t, "late", late.take(), want)
		if s := i.Status(); s.Rewriting != reflector.ReasonUnreadable {
			t.Errorf("status: %+v", s)
		}
		r.srv.setFail(nil)
		r.srv.write("a/2", "y")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		equal(t, "early", early.take(), []string{"add a/2@104=y initial"})
		if s := i.Status(); s.Rewriting != "" || s.Reflector.Relists[reflector.ReasonUnreadable] != 1 || s.Err != nil {
			t.Errorf("status: %+v", s)
		}
		equal(t, "store", r.stored(), r.srv.state())
		r.close()
	})
}

// TestStoreClosed checks that the informer stops, and reports the reason, even if no event arrives.
func TestStoreClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		i := r.start()
		begun := time.Now()
		if err := r.st.Close(); err != nil {
			t.Fatal(err)
		}
		<-r.done
		if s := i.Status(); !errors.Is(s.Err, store.ErrClosed) || !i.IsStopped() || s.Source == informer.Live ||
			time.Since(begun) > time.Second {
			t.Errorf("stopped %v after %v, status %+v", i.IsStopped(), time.Since(begun), s)
		}
	})
}
