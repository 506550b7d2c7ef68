package informer_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
)

// TestLateHandlers checks that the calls of handlers that register while objects change are consistent and end in the
// store's state.
func TestLateHandlers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for n := range 30 {
			r.srv.write(fmt.Sprintf("a/%02d", n), "0")
		}
		i := r.start()
		var writers sync.WaitGroup
		writers.Go(func() {
			for n := range 300 {
				key := fmt.Sprintf("a/%02d", (n*7)%40)
				if n%5 == 4 {
					r.srv.delete(key)
				} else {
					r.srv.write(key, fmt.Sprint(n))
				}
			}
		})
		var hs []*recorder
		var regs []cache.ResourceEventHandlerRegistration
		for range 20 {
			h := &recorder{}
			reg, err := i.AddEventHandler(h)
			if err != nil {
				t.Fatal(err)
			}
			hs, regs = append(hs, h), append(regs, reg)
		}
		writers.Wait()
		synctest.Wait()
		for n, h := range hs {
			known := map[string]string{}
			replay(t, known, h.take())
			equal(t, fmt.Sprintf("handler %d", n), sortedValues(known), r.srv.state())
			if !regs[n].HasSynced() {
				t.Errorf("handler %d has not synced", n)
			}
		}
		r.close()
	})
}

// TestOneLock checks that deltasMu is held during each write to the store.
func TestOneLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.PageSize = 1
		r.srv.write("a/1", "x")
		r.srv.write("a/2", "x")
		i := r.open()
		calls := 0
		informer.SetStore(i, &lockedStore{Interface: informer.Store(i), check: func(what string) {
			calls++
			if informer.Deltas(i).TryLock() {
				informer.Deltas(i).Unlock()
				t.Errorf("%s without deltasMu", what)
			}
		}})
		r.run(&recorder{})
		r.srv.write("a/3", "x")
		synctest.Wait()
		if calls < 5 { // at least BeginReplace, two pages, Commit, and one change
			t.Errorf("only %d calls", calls)
		}
		r.close()
	})
}

// TestLateHandlerDuringRestore registers a handler while the stored objects are read for an earlier handler.
func TestLateHandlerDuringRestore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for n := range 5 {
			r.srv.write(fmt.Sprintf("a/%d", n), "x")
		}
		r.start()
		r.close()

		early, late := &recorder{}, &recorder{}
		i := r.open()
		joined := make(chan error, 1)
		slow := &slowStore{Interface: informer.Store(i), at: "a/2", reached: make(chan struct{}), resume: make(chan struct{})}
		informer.SetStore(i, slow)
		go func() {
			<-slow.reached
			go func() {
				_, err := i.AddEventHandler(late)
				joined <- err
			}()
			time.Sleep(time.Second) // AddEventHandler must wait for the page that is being read
			close(slow.resume)
		}()
		r.run(early)
		if err := <-joined; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want := []string{"add a/0@101=x initial", "add a/1@102=x initial", "add a/2@103=x initial", "add a/3@104=x initial",
			"add a/4@105=x initial"}
		equal(t, "early", early.take(), want)
		equal(t, "late", late.take(), want)
		r.close()
	})
}

func TestHandlersAreIndependent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		release := make(chan struct{})
		stuck, free := &recorder{hook: func(string) { <-release }}, &recorder{}
		i := r.open()
		reg, err := i.AddEventHandler(stuck)
		if err != nil {
			t.Fatal(err)
		}
		r.run(free)
		for n := range 100 {
			r.srv.write(fmt.Sprintf("b/%02d", n), "x")
		}
		synctest.Wait()
		if n := len(free.take()); n != 101 {
			t.Errorf("the other handler got %d of 101 calls", n)
		}
		if len(r.stored()) != 101 {
			t.Errorf("%d of 101 objects stored", len(r.stored()))
		}
		if !i.HasSynced() || reg.HasSynced() {
			t.Errorf("informer synced %v, want true; stuck handler synced %v, want false", i.HasSynced(), reg.HasSynced())
		}
		close(release)
		synctest.Wait()
		if n := len(stuck.take()); n != 101 || !reg.HasSynced() {
			t.Errorf("after it returned: %d calls, synced %v", n, reg.HasSynced())
		}
		r.close()
	})
}

// TestRegistrationWaitsForUpdates checks that a registration syncs only after the changes that were made while no
// informer ran.
func TestRegistrationWaitsForUpdates(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		r.start()
		r.close()
		r.srv.write("a/1", "y")
		release := make(chan struct{})
		h := &recorder{hook: func(line string) {
			if strings.HasPrefix(line, "update") {
				<-release
			}
		}}
		i := r.open()
		reg, err := i.AddEventHandler(h)
		if err != nil {
			t.Fatal(err)
		}
		r.run()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !i.HasSynced() || reg.HasSynced() {
			t.Errorf("informer synced %v, want true; registration %v, want false", i.HasSynced(), reg.HasSynced())
		}
		close(release)
		synctest.Wait()
		if !reg.HasSynced() {
			t.Error("the registration has not synced")
		}
		r.close()
	})
}

func TestRegistrationNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		i := r.open()
		reg, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: (&recorder{}).OnDelete})
		if err != nil {
			t.Fatal(err)
		}
		if n := i.HasSyncedChecker().Name(); n != "SharedIndexInformer *v1.Pod" {
			t.Errorf("informer: %q", n)
		}
		if n := reg.HasSyncedChecker().Name(); !strings.HasPrefix(n, "SharedIndexInformer *v1.Pod + event handler ") ||
			!strings.Contains(n, "recorder") {
			t.Errorf("registration: %q", n)
		}
		r.close()
	})
}

// survivePanics turns utilruntime.ReallyCrash off for the test, and keeps reports of panics out of the log.
func survivePanics(t *testing.T) {
	t.Helper()
	old := utilruntime.ReallyCrash
	utilruntime.ReallyCrash = false
	t.Cleanup(func() { utilruntime.ReallyCrash = old })
	quietHandlers(t)
}

// TestHandlerPanics checks that a panic ends only the current call, and that the handler then pauses for a second.
func TestHandlerPanics(t *testing.T) {
	survivePanics(t)
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for n := range 3 {
			r.srv.write(fmt.Sprintf("a/%d", n), "x")
		}
		var at []time.Duration
		begin := time.Now()
		h := &recorder{hook: func(line string) {
			at = append(at, time.Since(begin))
			if !strings.Contains(line, "a/2") {
				panic("from the test")
			}
		}}
		other := &recorder{}
		i := r.open()
		reg, err := i.AddEventHandler(h)
		if err != nil {
			t.Fatal(err)
		}
		r.run(other)
		if n := len(other.take()); n != 3 {
			t.Errorf("the other handler got %d of 3 calls", n)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if want := []time.Duration{0, time.Second, 2 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("calls at %v, want %v", at, want)
		}
		if reg.HasSynced() { // a registration never syncs after a panic (kubernetes#129024)
			t.Error("the registration has synced although its handler panicked")
		}
		r.close()
	})
}

func TestRunDoesNotWaitForThePauseAfterAPanic(t *testing.T) {
	survivePanics(t)
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		r.start(&recorder{hook: func(string) { panic("from the test") }})
		begin := time.Now()
		r.close()
		if d := time.Since(begin); d != 0 {
			t.Errorf("the stop took %v of fake time", d)
		}
	})
}

// TestAddDuringHandler checks that a handler may call methods of its informer.
func TestAddDuringHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		inner := &recorder{}
		var i *informer.Informer
		var errs []error
		h := &recorder{hook: func(string) {
			reg, err := i.AddEventHandler(inner)
			errs = append(errs, err, i.RemoveEventHandler(reg))
			_, err = i.AddEventHandler(inner)
			errs = append(errs, err)
			_, _, err = i.GetStore().GetByKey("a/1")
			errs = append(errs, err)
		}}
		i = r.open()
		r.run(h)
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if got := inner.take(); !slices.Contains(got, "add a/1@101=x initial") {
			t.Errorf("inner handler got %q", got)
		}
		r.close()
	})
}
