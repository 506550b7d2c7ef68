package informer_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
)

// ledger is a handler that maintains the state that its calls report, and so notices contradictory calls.
type ledger struct {
	t     *testing.T
	mu    sync.Mutex
	state map[string]string
	over  bool
}

func (f *ledger) call(obj any, check func(key string) bool, after func(key, now string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if u, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = u.Obj
	}
	p := obj.(*corev1.Pod)
	key := p.Namespace + "/" + p.Name
	if f.over || !check(key) {
		f.t.Errorf("call with %s at state %q, over %t", describe(p), f.state[key], f.over)
	}
	after(key, describe(p))
}

func (f *ledger) OnAdd(obj any, _ bool) {
	f.call(obj, func(key string) bool { return f.state[key] == "" }, func(key, now string) { f.state[key] = now })
}

func (f *ledger) OnUpdate(old, obj any) {
	was := describe(old)
	f.call(obj, func(key string) bool { return f.state[key] == was }, func(key, now string) { f.state[key] = now })
}

func (f *ledger) OnDelete(obj any) {
	f.call(obj, func(key string) bool { return f.state[key] != "" }, func(key, _ string) { delete(f.state, key) })
}

func (f *ledger) values() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Values(f.state))
}

// TestAttachAtRandom makes, runs and ends informers on one collection at random. Each handler must get every change
// once, and none after its run, and the server must have one watch at a time.
func TestAttachAtRandom(t *testing.T) {
	for seed := range uint64(10) {
		bubble(t, func(t *testing.T) {
			r := newRig(t)
			r.open()
			m := &fleet{r: r, random: rand.New(rand.NewPCG(seed, 0))}
			var workers sync.WaitGroup
			stop := make(chan struct{})
			for n := range 6 {
				random := rand.New(rand.NewPCG(seed, uint64(n)+1))
				workers.Go(func() {
					for range 15 {
						i, err := informer.New(r.srv, &corev1.Pod{}, informer.OptionsOf(r.i))
						if err != nil {
							t.Error(err)
							return
						}
						f := &ledger{t: t, state: map[string]string{}}
						if _, err := i.AddEventHandler(f); err != nil {
							t.Error(err)
						}
						if random.IntN(5) == 0 {
							time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
							if err := i.Close(); err != nil {
								t.Error(err)
							}
							continue
						}
						ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(5000))*time.Millisecond)
						i.RunWithContext(ctx)
						cancel()
						f.mu.Lock()
						f.over = true
						f.mu.Unlock()
					}
				})
			}
			go func() {
				defer close(stop)
				workers.Wait()
			}()
			last := &ledger{t: t, state: map[string]string{}}
			if _, err := r.i.AddEventHandler(last); err != nil {
				t.Fatal(err)
			}
			if seed%2 == 0 {
				r.run()
			}
			for n := 0; ; n++ {
				r.srv.mu.Lock()
				watches := len(r.srv.watches)
				r.srv.mu.Unlock()
				if watches > 1 {
					t.Errorf("%d watches", watches)
				}
				key := fmt.Sprintf("a/%d", m.random.IntN(12))
				if m.random.IntN(4) == 0 {
					r.srv.delete(key)
				} else {
					r.srv.write(key, fmt.Sprint(n))
				}
				time.Sleep(time.Duration(m.random.IntN(100)) * time.Millisecond)
				select {
				case <-stop:
				default:
					continue
				}
				break
			}
			if seed%2 == 1 {
				r.run()
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			equal(t, "state of the last handler", last.values(), r.srv.state())
			equal(t, "stored", r.stored(), r.srv.state())
			if lists, _ := r.srv.requests(); lists > 1 {
				t.Errorf("%d lists", lists)
			}
			r.close()
		})
	}
}
