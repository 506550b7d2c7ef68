package informer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/testresidency"
	"github.com/larder-dev/larder/store"
)

type one struct {
	srv    *server
	i      *informer.Informer
	cancel context.CancelFunc
	done   chan struct{}
}

// fleet is a set of informers on one store, by the resource they watch.
type fleet struct {
	r       *rig
	random  *rand.Rand
	servers map[string]*server
	running map[string]*one
	made    int
}

// start runs an informer of the resource. An earlier informer of this resource must be about to end.
func (m *fleet) start(resource string) {
	m.r.t.Helper()
	srv := m.servers[resource]
	if srv == nil {
		srv = newServer()
		m.servers[resource] = srv
		for n := range 1 + m.random.IntN(10) {
			srv.write(fmt.Sprintf("a/%d", n), "x")
		}
	}
	i, err := informer.New(srv, &corev1.Pod{}, informer.Options{
		Store: m.r.st, Identity: entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource(resource)},
		Logger:    &discard,
		Residency: testresidency.Of(m.r.t),
	})
	if err != nil {
		m.r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	o := &one{srv: srv, i: i, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(o.done)
		i.RunWithContext(ctx)
	}()
	m.running[resource] = o
}

func (m *fleet) startNew() {
	m.made++
	m.start(fmt.Sprintf("r-%03d", m.made))
}

func (m *fleet) pick() string {
	all := slices.Sorted(maps.Keys(m.running))
	return all[m.random.IntN(len(all))]
}

func (m *fleet) change(n int) {
	all := slices.Sorted(maps.Keys(m.servers))
	for range n {
		srv, key := m.servers[all[m.random.IntN(len(all))]], fmt.Sprintf("a/%d", m.random.IntN(12))
		if m.random.IntN(4) == 0 {
			srv.delete(key)
		} else {
			srv.write(key, fmt.Sprint(m.random.IntN(1000)))
		}
	}
}

// TestManyInformers starts, stops, replaces and drops many informers on one store while objects change. The objects of
// each running informer must finally equal its server's.
func TestManyInformers(t *testing.T) {
	const informers, rounds = 60, 6
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.open()
		if err := r.i.Close(); err != nil {
			t.Fatal(err)
		}
		m := &fleet{r: r, random: rand.New(rand.NewPCG(1, 2)), servers: map[string]*server{}, running: map[string]*one{}}
		for range informers {
			m.startNew()
		}
		stored := map[string]bool{"pods": true}
		for range rounds {
			m.change(200)
			for n := range informers / 6 {
				resource := m.pick()
				o := m.running[resource]
				delete(m.running, resource)
				o.cancel()
				if n%2 == 0 {
					m.start(resource) // New waits for the resource's earlier informer to end
					<-o.done
					continue
				}
				<-o.done
				stored[resource] = true
				if n%4 == 1 {
					if err := r.st.Drop(t.Context(), o.i.Identity()); err != nil {
						t.Error(err)
					}
					delete(stored, resource)
				}
				m.startNew()
			}
			time.Sleep(time.Duration(m.random.IntN(3000)) * time.Millisecond)
			m.change(200)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for resource, o := range m.running {
			r.i, stored[resource] = o.i, true
			equal(t, resource, r.stored(), o.srv.state())
			if s := o.i.Status(); s.Err != nil || s.Source != informer.Live || s.Pending != 0 {
				t.Errorf("%s: %+v", resource, s)
			}
			other := informer.OptionsOf(o.i)
			other.AuditEvery = time.Hour
			if _, err := informer.New(o.srv, &corev1.Pod{}, other); !errors.Is(err, store.ErrCollectionOpen) {
				t.Errorf("%s: another informer on it: %v", resource, err)
			}
			o.cancel()
			<-o.done
		}
		if n := r.st.Pending(); n != 0 {
			t.Errorf("%d bytes are pending when all have ended", n)
		}
		infos, err := r.st.Collections(t.Context())
		if err != nil || len(infos) != len(stored) {
			t.Errorf("the file has %d collections, want %d, %v", len(infos), len(stored), err)
		}
		r.close()
	})
}
