package informer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestResync(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.ResyncPeriod = 10 * time.Second
		r.srv.write("a/1", "x")
		i := r.open()
		hs := map[time.Duration]*recorder{0: {}, 10 * time.Second: {}, 20 * time.Second: {}, 2 * time.Second: {}}
		for period, h := range hs {
			if _, err := i.AddEventHandlerWithResyncPeriod(h, period); err != nil {
				t.Fatal(err)
			}
		}
		r.run()
		for _, h := range hs {
			h.take()
		}
		time.Sleep(41 * time.Second)
		synctest.Wait()
		for period, want := range map[time.Duration]int{0: 0, 2 * time.Second: 20, 10 * time.Second: 4, 20 * time.Second: 2} {
			got := hs[period].take()
			if len(got) != want {
				t.Errorf("period %v: %d resyncs in 41 s, want %d", period, len(got), want)
			}
			for _, line := range got {
				if line != "update a/1@101=x to a/1@101=x" {
					t.Errorf("period %v: %q", period, line)
				}
			}
		}
		r.close()
	})
}

// TestSameVersion checks that an update event with an unchanged resourceVersion is delivered only to handlers with a
// resync period, as in client-go.
func TestSameVersion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		h, resyncing := &recorder{}, &recorder{}
		r.o.ResyncPeriod = time.Minute
		i := r.open()
		for handler, period := range map[*recorder]time.Duration{h: 0, resyncing: time.Minute} {
			if _, err := i.AddEventHandlerWithResyncPeriod(handler, period); err != nil {
				t.Fatal(err)
			}
		}
		r.run()
		time.Sleep(90 * time.Second)
		synctest.Wait()
		h.take()
		resyncing.take()
		r.srv.mu.Lock()
		for w := range r.srv.watches {
			w.send(watchModified(r.srv.pods["a/1"]))
		}
		r.srv.mu.Unlock()
		synctest.Wait()
		equal(t, "handler", h.take(), nil)
		if len(resyncing.take()) != 1 {
			t.Error("a resyncing handler received nothing")
		}
		r.close()
	})
}

// TestAnotherBodyOfTheSameVersion checks that handlers without a resync period too get the new contents that a list
// finds under an unchanged resourceVersion.
func TestAnotherBodyOfTheSameVersion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		again := lose(r.srv, 1)
		r.srv.elsewhere(5)
		h, resyncing := &recorder{}, &recorder{}
		r.o.ResyncPeriod = time.Minute
		i := r.open()
		for handler, period := range map[*recorder]time.Duration{h: 0, resyncing: time.Minute} {
			if _, err := i.AddEventHandlerWithResyncPeriod(handler, period); err != nil {
				t.Fatal(err)
			}
		}
		r.run()
		time.Sleep(90 * time.Second)
		synctest.Wait()
		h.take()
		again(1)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		equal(t, "handler", h.take(), []string{"update a/0@105=lost to a/0@105=other"})
		r.close()
	})
}

// TestSchemaAfterTheList checks a server that publishes a new schema only after an expired watch has led to a list of
// metadata, which are unchanged. Handlers get the changed contents of large objects, because a later connect reads the
// schema's hash before the hour is over. A failed read is repeated at the next connect. Issue 38.
func TestSchemaAfterTheList(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hash, fails := "one", false
		r := newRig(t)
		r.o.OpenAPIHash, r.o.ListMetadata = func(context.Context) (string, error) {
			r.srv.mu.Lock()
			defer r.srv.mu.Unlock()
			if fails {
				fails = false
				return "", errors.New("the connection breaks")
			}
			return hash, nil
		}, r.srv.listMetadata
		r.srv.fatten()
		for n := range 20 { // with fewer objects, one new object would make the informer list whole objects
			r.srv.write(fmt.Sprintf("a/%d", n), "quick")
		}
		r.srv.write("a/x", "slow")
		h := &recorder{}
		r.start(h)
		time.Sleep(5 * time.Minute)
		h.take()
		r.srv.mu.Lock()
		p := r.srv.pods["a/x"].DeepCopy()
		p.Labels["value"] = "medium"
		r.srv.pods["a/x"] = p
		r.srv.mu.Unlock()
		r.srv.disconnect() // an open watch would deliver the next write
		r.srv.write("a/y", "new")
		r.srv.compact()
		time.Sleep(8 * time.Second)
		r.srv.mu.Lock()
		hash, fails = "two", true
		r.srv.mu.Unlock()
		time.Sleep(31 * time.Minute)
		synctest.Wait()
		rv := p.ResourceVersion
		if got := h.take(); !slices.Contains(got, "update a/x@"+rv+"=slow to a/x@"+rv+"=medium") {
			t.Errorf("the handler got %q", got)
		}
		r.close()
	})
}

// TestAnotherBodyAfterLostHistory checks an object whose contents change while its UID and resourceVersion do not, as
// after a new default or conversion of a CRD. Handlers get the new contents after an expired watch, whatever the size
// of the objects, the handler's resync period and Options.OpenAPIHash. kubernetes#71138, issue 38.
func TestAnotherBodyAfterLostHistory(t *testing.T) {
	hash := "one"
	for name, option := range map[string]func(context.Context) (string, error){
		"without OpenAPIHash": nil,
		"with OpenAPIHash":    func(context.Context) (string, error) { return hash, nil },
	} {
		for size, fat := range map[string]bool{"1 KB": false, "20 KB": true} {
			t.Run(name+", "+size, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					hash = "one"
					r := newRig(t)
					r.o.OpenAPIHash, r.o.ListMetadata = option, r.srv.listMetadata
					if fat {
						r.srv.fatten()
					}
					r.srv.write("a/x", "slow")
					h := &recorder{}
					r.start(h)
					time.Sleep(5 * time.Minute)
					h.take()
					r.srv.mu.Lock()
					p := r.srv.pods["a/x"].DeepCopy()
					p.Labels["value"] = "medium"
					r.srv.pods["a/x"], hash = p, "two"
					r.srv.mu.Unlock()
					r.srv.disconnect() // an open watch would deliver the next write
					r.srv.write("a/y", "new")
					r.srv.compact()
					time.Sleep(8 * time.Second)
					synctest.Wait()
					rv := p.ResourceVersion
					if got := h.take(); !slices.Contains(got, "update a/x@"+rv+"=slow to a/x@"+rv+"=medium") {
						t.Errorf("the handler got %q", got)
					}
					equal(t, "stored", r.stored(), r.srv.state())
					r.close()
				})
			})
		}
	}
}
