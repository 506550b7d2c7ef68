package informer_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

func diskFull() error { return syscall.ENOSPC }

// TestFullDiskAfterARelist checks that the informer applies events and syncs although the relist cannot be committed.
// Issue 37.
func TestFullDiskAfterARelist(t *testing.T) {
	for name, listed := range map[string]bool{"in the run of the first list": true, "at a restart": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				var disk hook.Gate
				r.so.Hooks = &hook.Hooks{Commit: disk.Commit}
				r.srv.write("a/1", "x")
				r.srv.write("a/2", "x")
				h := &recorder{}
				i := r.start(h)
				if !listed {
					r.close()
					i = r.open()
				}
				disk.Fail(diskFull)
				r.srv.disconnect()
				r.srv.delete("a/2")
				r.srv.write("a/3", "x")
				r.srv.compact()
				if !listed {
					h = &recorder{}
					r.run(h)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				for n := range 10 {
					r.srv.write(fmt.Sprintf("b/%d", n), "y")
					r.srv.write("a/1", fmt.Sprint(n))
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				equal(t, "reads while the disk is full", r.stored(), r.srv.state())
				known := map[string]string{}
				replay(t, known, h.take())
				equal(t, "the handler while the disk is full", sortedValues(known), r.srv.state())
				s := i.Status()
				if !s.Synced || s.Source != informer.Live || s.Pending != 0 || !errors.Is(s.Err, store.ErrNoSpace) {
					t.Errorf("synced %v, source %s, %d pending, %v", s.Synced, s.Source, s.Pending, s.Err)
				}
				disk.Fail(nil)
				time.Sleep(time.Minute)
				if s := i.Status(); s.Err != nil || r.st.Pending() != 0 {
					t.Errorf("with room again: %v, %d bytes are not committed", s.Err, r.st.Pending())
				}
				r.close()
			})
		})
	}
}

// TestPanicOnAFullDisk checks that a panic of the process loop is reported and ends the run although the first list
// cannot be committed. Issue 37.
func TestPanicOnAFullDisk(t *testing.T) {
	old := utilruntime.ReallyCrash
	utilruntime.ReallyCrash = false
	defer func() { utilruntime.ReallyCrash = old }()
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		var disk hook.Gate
		r.so.Hooks = &hook.Hooks{Commit: disk.Commit}
		r.srv.write("a/1", "x")
		i := r.open()
		s := &panickingStore{Interface: informer.Store(i)}
		informer.SetStore(i, s)
		disk.Fail(diskFull)
		r.run()
		time.Sleep(time.Minute)
		r.srv.write("a/2", "x")
		time.Sleep(time.Minute)
		select {
		case <-r.done:
		default:
			t.Error("the informer goes on")
		}
		disk.Fail(nil)
		r.close()
	})
}

type panickingStore struct{ store.Interface }

func (s *panickingStore) Apply(context.Context, entry.Batch) (entry.Result, error) {
	panic("from the test")
}

// TestFullDiskAfterTheFirstList checks that events are applied in memory, and that HasSynced waits for the first list's
// commit. Issue 37.
func TestFullDiskAfterTheFirstList(t *testing.T) {
	for _, policy := range []informer.SyncPolicy{informer.Resumed, informer.Disk} {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.o.SyncPolicy = policy
				var disk hook.Gate
				r.so.Hooks = &hook.Hooks{Commit: disk.Commit}
				r.srv.write("a/1", "x")
				h := &recorder{}
				i := r.open()
				disk.Fail(diskFull)
				r.run(h)
				time.Sleep(time.Minute)
				r.srv.write("a/2", "x")
				r.srv.write("a/1", "y")
				time.Sleep(time.Minute)
				synctest.Wait()
				equal(t, "reads while the disk is full", r.stored(), r.srv.state())
				s := i.Status()
				if s.Synced || s.Source != informer.Live || s.ResourceVersion != "103" || !errors.Is(s.Err, store.ErrNoSpace) {
					t.Errorf("synced %v, source %s at %s, %v", s.Synced, s.Source, s.ResourceVersion, s.Err)
				}
				r.srv.disconnect() // causes a relist before the first list is committed
				r.srv.write("a/3", "x")
				r.srv.compact()
				time.Sleep(time.Minute)
				synctest.Wait()
				equal(t, "reads after a relist", r.stored(), r.srv.state())
				if i.HasSynced() {
					t.Error("it has synced before the first list was committed")
				}
				disk.Fail(nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				if s := i.Status(); s.Err != nil || !s.Synced || s.Source != informer.Live || r.st.Pending() != 0 {
					t.Errorf("with room: synced %v, source %s, %v, %d bytes are not committed", s.Synced, s.Source, s.Err,
						r.st.Pending())
				}
				known := map[string]string{}
				replay(t, known, h.take())
				equal(t, "the handler", sortedValues(known), r.srv.state())
				r.close()
			})
		})
	}
}

// TestHungDiskAfterTheFirstList checks that events are applied while the commit of the first list hangs, and that the
// informer syncs after that commit.
func TestHungDiskAfterTheFirstList(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		var disk hook.Gate
		r.so.Hooks = &hook.Hooks{Commit: disk.Commit}
		r.srv.write("a/1", "x")
		i := r.open()
		_, release := disk.Hold()
		r.run()
		r.srv.write("a/2", "x")
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "reads while the disk hangs", r.stored(), r.srv.state())
		if s := i.Status(); s.Synced || !errors.Is(s.Err, store.ErrSlowDisk) {
			t.Errorf("synced %v, %v", s.Synced, s.Err)
		}
		release()
		time.Sleep(time.Second)
		synctest.Wait()
		if !i.HasSynced() {
			t.Error("not synced after the commit of the first list")
		}
		r.close()
	})
}

// TestFullDiskAndARewind checks that the informer lists although the reason for the list cannot be stored.
func TestFullDiskAndARewind(t *testing.T) {
	for name, stop := range map[string]func(disk *hook.Gate) (goOn func()){
		"full": func(disk *hook.Gate) func() {
			disk.Fail(diskFull)
			return func() { disk.Fail(nil) }
		},
		"hangs": func(disk *hook.Gate) func() {
			_, release := disk.Hold()
			return release
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				var disk hook.Gate
				r.so.Hooks = &hook.Hooks{Commit: disk.Commit}
				again := lose(r.srv, 3)
				i := r.start()
				goOn := stop(&disk)
				again(2)
				r.srv.write("b/beyond", "y")
				r.srv.disconnect()
				time.Sleep(5 * time.Minute)
				r.srv.write("b/last", "y")
				synctest.Wait()
				equal(t, "reads", r.stored(), r.srv.state())
				if s := i.Status(); s.Reflector.Relists[reflector.ReasonAhead]+s.Reflector.Relists[reflector.ReasonRewound] == 0 {
					t.Errorf("no list after the rewind: %v", s.Reflector.Relists)
				}
				goOn()
				time.Sleep(time.Minute)
				r.close()
			})
		})
	}
}
