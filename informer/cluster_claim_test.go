package informer_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// second runs a second informer on the rig's store, with its own resource and its own server, whose cluster has the
// given id.
func second(r *rig, srv *server, id *atomic.Value) (i *informer.Informer, stop func()) {
	r.t.Helper()
	o := r.o
	o.Store = r.st
	o.Identity = entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("others")}
	o.ClusterID = idOf(id)
	i, err := informer.New(srv, &corev1.Pod{}, o)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		i.RunWithContext(ctx)
	}()
	synctest.Wait()
	return i, func() { cancel(); <-done }
}

func idOf(id *atomic.Value) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return id.Load().(string), nil }
}

func cluster(id string) *atomic.Value {
	v := &atomic.Value{}
	v.Store(id)
	return v
}

// TestTwoClustersOneStore checks that the second of two informers on one store waits, and reports why, while the first
// is connected to another cluster.
func TestTwoClustersOneStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.ClusterID = idOf(cluster("one"))
		r.srv.write("a/1", "x")
		first := r.start()
		other := newServer()
		other.write("b/1", "x")
		i, stop := second(r, other, cluster("two"))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s := i.Status(); !errors.Is(s.Err, store.ErrOtherCluster) || s.Synced || s.Objects != 0 {
			t.Errorf("the second: %+v", s)
		} else {
			t.Log(s.Err)
		}
		if lists, _ := other.requests(); lists != 0 {
			t.Errorf("%d lists", lists)
		}
		if s := first.Status(); s.Err != nil || s.Source != informer.Live {
			t.Errorf("the first: %+v", s)
		}
		r.stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := i.Status(); s.Err != nil || !s.Synced || s.Objects != 1 {
			t.Errorf("the second, alone: %+v", s)
		}
		stop()
		r.close()
	})
}

// TestExchangedClusterOfTwo checks that the replacement of a cluster does not count as a second cluster, though two
// informers on the store notice it one after the other.
func TestExchangedClusterOfTwo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		id := cluster("one")
		r := newRig(t)
		r.o.ClusterID = idOf(id)
		r.srv.write("a/1", "x")
		first := r.start()
		other := newServer()
		other.write("b/1", "x")
		i, stop := second(r, other, id)
		id.Store("two")
		for _, step := range []struct {
			srv *server
			i   *informer.Informer
		}{{other, i}, {r.srv, first}} {
			step.srv.disconnect()
			time.Sleep(40 * time.Second)
			synctest.Wait()
			if s := step.i.Status(); s.Err != nil || s.Source != informer.Live ||
				s.Reflector.Relists[reflector.ReasonCluster] != 1 {
				t.Errorf("%+v", s)
			}
		}
		stop()
		r.close()
	})
}
