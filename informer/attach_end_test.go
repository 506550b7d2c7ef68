package informer_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

// clusters provides a cluster id that a test changes while informers read it.
type clusters struct {
	mu  sync.Mutex
	now string
	err error
}

func (c *clusters) set(id string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.err = id, err
}

func (c *clusters) id(context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.err
}

// withClient returns a second informer on the rig's collection, whose client may be connected to another cluster.
func (r *rig) withClient(of *clusters) *informer.Informer {
	r.t.Helper()
	o := informer.OptionsOf(r.i)
	o.ClusterID = of.id
	i, err := informer.New(r.srv, &corev1.Pod{}, o)
	if err != nil {
		r.t.Fatal(err)
	}
	return i
}

// TestAttachDurableOfAnotherCluster checks two informers that share a collection. A durable handler of the second
// informer gets no change before that informer's client has read its cluster id, and none at all if the id differs from
// the first informer's.
func TestAttachDurableOfAnotherCluster(t *testing.T) {
	for name, refused := range map[string]bool{"the same": false, "another": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.srv.write("a/1", "x")
				of := &clusters{now: "one"}
				r.o.ClusterID = of.id
				first := shares(t, r.open())
				own := &clusters{err: errors.New("from the test")}
				i, h := r.withClient(own), &durableRecorder{}
				if _, err := i.Durable().Add("h", h.handler()); err != nil {
					t.Fatal(err)
				}
				second := shares(t, i)
				first.run()
				second.run()
				time.Sleep(time.Minute)
				synctest.Wait()
				equal(t, "the cluster is unknown", h.take(), nil)
				id, want := "one", []string{"reset new", "replayed", "+ a/1@101=x"}
				if refused {
					id, want = "two", nil
				}
				own.set(id, nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				equal(t, "the cluster is known", h.take(), want)
				first.stop()
				second.stop()
				r.close()
			})
		})
	}
}

// TestAttachClusterChanges checks that an informer of a shared collection gets no changes, no stored objects and no
// durable calls once the collection is filled from another cluster than its own client's.
func TestAttachClusterChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		of := &clusters{now: "one"}
		r.o.ClusterID = of.id
		first := shares(t, r.open())
		own := &clusters{now: "one"}
		i, h := r.withClient(own), &durableRecorder{}
		if _, err := i.Durable().Add("h", h.handler()); err != nil {
			t.Fatal(err)
		}
		second := shares(t, i)
		first.run()
		second.run()
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "second", second.h.take(), []string{"add a/1@101=x initial"})
		h.take()
		of.set("two", nil)
		r.srv.disconnect()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		second.h.take() // calls from before the comparison of the cluster ids are permitted
		h.take()
		r.srv.write("a/2", "y")
		late := &recorder{}
		if _, err := i.AddEventHandler(late); !errors.Is(err, store.ErrOtherCluster) {
			t.Errorf("a handler that is added after that: %v", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "second", second.h.take(), nil)
		equal(t, "its durable handler", h.take(), nil)
		equal(t, "a later handler", late.take(), nil)
		if got := first.h.take(); len(got) == 0 || got[len(got)-1] != "add a/2@102=y" {
			t.Errorf("first: %q", got)
		}
		second.stop()
		first.stop()
		r.close()
	})
}

// TestAttachStoreCloses checks that closing the store also ends an informer that still waits for its cluster id, and an
// informer that starts afterwards.
func TestAttachStoreCloses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		of := &clusters{now: "one"}
		r.o.ClusterID = of.id
		first := shares(t, r.open())
		waits := shares(t, r.withClient(&clusters{err: errors.New("from the test")}))
		late := r.another()
		first.run()
		waits.run()
		synctest.Wait()
		if err := r.st.Close(); err != nil {
			t.Error(err)
		}
		late.run()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for name, s := range map[string]*sharer{"first": first, "one that waits": waits, "one started late": late} {
			select {
			case <-s.done:
			default:
				t.Errorf("%s: its run goes on after the store was closed", name)
			}
			s.stop()
		}
	})
}

func TestAttachAudit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		r.o.ClusterID = (&clusters{now: "one"}).id
		first := shares(t, r.open())
		refused := shares(t, r.withClient(&clusters{now: "two"}))
		third := r.another()
		for _, s := range []*sharer{first, refused, third} {
			s.run()
		}
		time.Sleep(time.Minute)
		first.stop()
		if report, err := third.i.Audit(t.Context()); err != nil || report.Objects != 1 {
			t.Errorf("%+v, %v", report, err)
		}
		refused.stop()
		third.stop()
		r.close()
	})
}

type slowObserver struct{}

func (slowObserver) InformerMade(*informer.Informer)                         {}
func (slowObserver) InformerEnded(*informer.Informer)                        { time.Sleep(time.Second) }
func (slowObserver) Committed(*informer.Informer, informer.Commit)           {}
func (slowObserver) HandlerCalled(*informer.Informer, string, time.Duration) {}

func TestAttachEndsBeforeItsCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		r.o.ClusterID = (&clusters{now: "one"}).id
		first := shares(t, r.open())
		first.run()
		synctest.Wait()
		for range 50 {
			o := informer.OptionsOf(r.i)
			o.ClusterID, o.Observer = (&clusters{err: errors.New("from the test")}).id, slowObserver{}
			i, err := informer.New(r.srv, &corev1.Pod{}, o)
			if err != nil {
				t.Fatal(err)
			}
			s := shares(t, i)
			s.run()
			time.Sleep(time.Minute)
			s.stop()
			equal(t, "its handler", s.h.take(), nil)
		}
		first.stop()
		r.close()
	})
}
