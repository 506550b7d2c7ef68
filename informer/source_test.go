package informer_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

type follower struct {
	t     *testing.T
	mu    sync.Mutex
	lines []string
	errs  []error
	last  informer.Source
	at    time.Time
}

func (f *follower) changed(c informer.SourceChange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.lines) == 0 && c.From != c.To || len(f.lines) > 0 && (c.From != f.last || c.From == c.To) {
		f.t.Errorf("%+v after %q", c, f.lines)
	}
	if c.At.Before(f.at) {
		f.t.Errorf("%+v is older than the previous change", c)
	}
	f.lines = append(f.lines, string(c.To))
	f.errs = append(f.errs, c.Err)
	f.last, f.at = c.To, c.At
}

// take returns the sources received since the last take. The first of them is the source that was current then.
func (f *follower) take() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() { f.lines = f.lines[len(f.lines)-1:] }()
	return strings.Join(f.lines, " ")
}

// TestSubscribeSource checks which Source changes a subscriber receives in a first start, an outage, the end of the
// run, and a start from disk.
func TestSubscribeSource(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		i := r.open()
		f := &follower{t: t}
		i.SubscribeSource(f.changed)
		synctest.Wait()
		if len(f.lines) > 0 {
			t.Errorf("received %q before the run", f.lines)
		}
		r.run()
		if got := f.take(); got != "none disk live" {
			t.Errorf("a first start: %q", got)
		}
		time.Sleep(time.Hour)
		if got := f.take(); got != "live" {
			t.Errorf("an hour: %q", got)
		}
		lost := time.Now()
		r.srv.setFail(refuse)
		r.srv.disconnect()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		s := i.Status()
		if got := f.take(); got != "live disk" || s.Source != informer.FromDisk || s.SourceSince.Sub(lost) > time.Minute ||
			s.SourceSince.Before(lost) {
			t.Errorf("an outage since %v: %q, %+v", lost, got, s)
		}
		if f.errs[len(f.errs)-1] == nil {
			t.Error("nothing says why")
		}
		late := &follower{t: t}
		cancel := i.SubscribeSource(late.changed)
		r.srv.write("a/2", "x")
		r.srv.setFail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := f.take(); got != "disk live" || f.errs[len(f.errs)-1] != nil {
			t.Errorf("the server is back: %q, %v", got, f.errs)
		}
		if got := late.take(); got != "disk live" {
			t.Errorf("a late subscriber: %q", got)
		}
		if s := i.Status(); s.Source != informer.Live || s.SourceChanges[informer.Live] != 2 ||
			s.SourceChanges[informer.FromDisk] != 2 || s.SourceChanges[informer.None] != 0 {
			t.Errorf("%+v", s.SourceChanges)
		}
		cancel()
		r.close()
		if got := f.take(); got != "live disk" {
			t.Errorf("the end: %q", got)
		}
		if got := late.take(); got != "live" {
			t.Errorf("a subscriber that has cancelled: %q", got)
		}
		i.SubscribeSource(func(informer.SourceChange) { t.Error("called after the run") })

		r.srv.setFail(refuse)
		i = r.open()
		f = &follower{t: t}
		i.SubscribeSource(f.changed)
		r.run()
		time.Sleep(time.Minute)
		r.srv.setFail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := f.take(); got != "disk live" {
			t.Errorf("a start offline: %q", got)
		}
		r.close()
	})
}

// TestLiveOnceApplied checks that after an outage Status.Source becomes Live only when all received changes are
// applied.
func TestLiveOnceApplied(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		i := r.open()
		i.SubscribeSource(func(c informer.SourceChange) {
			if have := strings.Join(r.stored(), " "); c.To == informer.Live && have != strings.Join(r.srv.state(), " ") {
				t.Errorf("live with %s", have)
			}
		})
		r.run()
		for n := range 3 {
			r.srv.setFail(refuse)
			r.srv.disconnect()
			time.Sleep(time.Minute)
			for o := range 50 {
				r.srv.write(fmt.Sprintf("a/%d", o), fmt.Sprint(n))
			}
			if n == 2 {
				r.srv.compact()
			}
			r.srv.setFail(nil)
			time.Sleep(time.Minute)
			synctest.Wait()
			if s := i.Status(); s.Source != informer.Live {
				t.Errorf("%+v", s)
			}
		}
		r.close()
	})
}

// TestSlowSubscriber checks that only a bounded number of Source changes waits for a slow subscriber.
func TestSlowSubscriber(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		i := r.open()
		release := make(chan struct{})
		f := &follower{t: t}
		i.SubscribeSource(func(c informer.SourceChange) {
			<-release
			f.changed(c)
		})
		r.run()
		for range 700 {
			informer.Relist(i, "test")
			time.Sleep(3 * time.Minute)
			synctest.Wait()
		}
		if s := i.Status(); s.Source != informer.Live || s.SourceChanges[informer.Live] != 701 {
			t.Errorf("%+v", s.SourceChanges)
		}
		close(release)
		synctest.Wait()
		if n := len(f.lines); n > maxSourceChanges+1 || f.last != informer.Live {
			t.Errorf("received %d, the last is %s", n, f.last)
		}
		r.close()
	})
}

func TestSubscriberPanics(t *testing.T) {
	defer func(crash bool) { utilruntime.ReallyCrash = crash }(utilruntime.ReallyCrash)
	utilruntime.ReallyCrash = false
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		i := r.open()
		i.SubscribeSource(func(informer.SourceChange) { panic("a subscriber") })
		f := &follower{t: t}
		cancel := func() {}
		cancel = i.SubscribeSource(func(c informer.SourceChange) {
			f.changed(c)
			if c.To == informer.Live {
				cancel()
			}
		})
		r.run()
		if got := f.take(); got != "none disk live" {
			t.Error(got)
		}
		r.close()
		if got := f.take(); got != "live" {
			t.Errorf("received %q after it has cancelled", got)
		}
	})
}

func TestSourceOfAFailingStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		i := r.open()
		faulty := &faultyStore{Interface: informer.Store(i)}
		informer.SetStore(i, faulty)
		f := &follower{t: t}
		i.SubscribeSource(f.changed)
		r.run()
		f.take()
		faulty.set(store.ErrNoSpace, -1)
		r.srv.write("a/1", "y")
		synctest.Wait()
		if got := f.take(); got != "live disk" || !errors.Is(f.errs[len(f.errs)-1], store.ErrNoSpace) {
			t.Errorf("%q, %v", got, f.errs)
		}
		faulty.set(nil, 0)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := f.take(); got != "disk live" {
			t.Error(got)
		}
		r.close()
	})
}

// TestContactAfterAClockSetBack checks that contact with the server in this run replaces a stored LastContact that lies
// in the future.
func TestContactAfterAClockSetBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "larder.db")
	var r *rig
	bubble(t, func(t *testing.T) {
		time.Sleep(24 * time.Hour)
		r = newRig(t)
		r.path = path
		r.srv.write("a/1", "x")
		r.start()
		r.close()
	})
	// Each synctest bubble begins at the same fake time, so the stored LastContact is a day ahead.
	bubble(t, func(t *testing.T) {
		again := newRig(t)
		again.path = path
		again.srv.write("a/1", "x")
		i := again.start()
		if at := i.Status().LastContact; at.After(time.Now()) {
			t.Errorf("last contact %v from now", time.Until(at))
		}
		again.close()
	})
}
