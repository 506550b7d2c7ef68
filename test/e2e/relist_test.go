package e2e

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/reflector"
)

// TestRelistAfterRestart checks an informer that runs while its API server restarts without watch history. Changes
// before the restart reach the informer only by a relist.
func TestRelistAfterRestart(t *testing.T) {
	c := newCluster(t, shared)
	c.createPods(t, names("p", 0, 400))
	n := newNetwork(t, c.Address())
	f := newFile(t)
	s := f.start(t, podSource(t, n.through(c.Config(t.Name())), c.ns), smallPages)
	s.sync(t)
	before := c.pods(t)
	s.converge(t, before)
	stored := s.records(t)

	if err := n.set(refusing); err != nil {
		t.Fatal(err)
	}
	c.createPods(t, names("new", 0, 30))
	c.touchPods(t, names("p", 0, 40), "unseen")
	c.deletePods(t, names("p", 300, 350))
	want := c.pods(t)
	c.restartAPIServer(t)
	readers := watchReaders(t, s, before, want) // starts late, because the API server needs the processors
	readers.sawOld(t)
	if err := n.set(passing); err != nil {
		t.Fatal(err)
	}
	s.converge(t, want)
	got := s.expect(t, before, want)
	readers.stop(t)

	checkTombstones(t, got)
	if written := s.records(t) - stored; written != 30+40 {
		t.Errorf("%d records were written, want the 30 new and 40 changed ones", written)
	}
	if st := s.Status().Reflector; st.Relists[reflector.ReasonExpired] != 1 || len(st.Relists) != 1 {
		t.Errorf("relists: %v, want one for 410", st.Relists)
	}
	s.stop(t)
	f.close(t)
	if problem := want.diff(f.read(t, s.source.identity, s.source.example).objects); problem != "" {
		t.Error("on disk:", problem)
	}
}

// TestRelistAfterCompaction checks the relist after a compaction of etcd, for a resource without a watch cache.
func TestRelistAfterCompaction(t *testing.T) {
	c := newCluster(t, shared)
	configMaps := c.client.CoreV1().ConfigMaps(c.ns)
	put := func(name, value string) {
		t.Helper()
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": value}}
		_, err := configMaps.Update(t.Context(), cm, metav1.UpdateOptions{})
		if err != nil {
			_, err = configMaps.Create(t.Context(), cm, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	list := func() objects {
		t.Helper()
		l, err := configMaps.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		out := objects{}
		for i := range l.Items {
			out.put(t, &l.Items[i])
		}
		return out
	}
	for _, name := range names("cm", 0, 60) {
		put(name, "old")
	}
	f := newFile(t)
	src := typedSource(t, c.Config(t.Name()), "configmaps", c.ns, "", &corev1.ConfigMap{})
	_, before := f.run(t, src, smallPages)

	put("cm-00003", "new")
	put("zz", "new")
	if err := configMaps.Delete(t.Context(), "cm-00007", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := list()
	s := f.start(t, src, smallPages)
	s.sync(t)
	s.converge(t, want)
	checkTombstones(t, s.expect(t, before.objects, want))
	if st := s.Status().Reflector; st.Relists[reflector.ReasonExpired] != 1 {
		t.Errorf("relists: %v, want one for 410", st.Relists)
	}
	s.stop(t)
	f.close(t)
	after := f.read(t, src.identity, src.example)
	if written := after.NextSeq - before.NextSeq; written != 2 {
		t.Errorf("%d records were written, want the new and the changed one", written)
	}
}

// TestSIGKILLInRelist checks that a kill during a relist leaves the old state and its resourceVersion in the store
// file.
func TestSIGKILLInRelist(t *testing.T) {
	kills, pods := 6, 500
	if soak {
		kills, pods = 100, 1000
	}
	c := newCluster(t, shared)
	c.createPods(t, names("p", 0, pods))
	f := newFile(t)
	src := podSource(t, c.Config(t.Name()), c.ns)
	_, before := f.run(t, src)

	c.touchPods(t, names("p", 0, pods/2), "unseen")
	c.deletePods(t, names("p", pods-pods/10, pods))
	c.restartAPIServer(t) // with its history the server would send the changes by a watch
	want := c.pods(t)
	random := newRandom(t)
	gate := newGate(t, c.Config(t.Name()), "pods")
	for n := range kills {
		page := 1 + random.IntN(8) // the number of one of nine pages
		reached := gate.holdListAfter(page)
		p := startChild(t, gate.config(c.Config(t.Name())),
			childConfig{Store: f.path, Namespace: c.ns, PageSize: int64(pods / 10)})
		eventually(t, "the relist", func() string {
			select {
			case <-reached:
				return ""
			default:
			}
			if p.crashed() {
				t.Fatalf("child: %v\n%s", p.err, p.stderr())
			}
			return fmt.Sprintf("%+v", p.report())
		})
		time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond) // meanwhile, pages may reach the store
		eventually(t, "in the middle of the relist", func() string {  // the child's first report may be late
			if r := p.report(); r.Objects != len(before.objects) {
				return fmt.Sprintf("readers see %d objects, want %d", r.Objects, len(before.objects))
			}
			return ""
		})
		p.kill()
		after := f.read(t, src.identity, src.example)
		if problem := before.objects.diff(after.objects); problem != "" || after.ResourceVersion != before.ResourceVersion {
			t.Fatalf("kill %d after page %d: RV %s, want %s; %s", n+1, page, after.ResourceVersion, before.ResourceVersion,
				problem)
		}
	}
	s := f.start(t, src)
	s.sync(t)
	if problem := want.diff(s.held(t)); problem != "" {
		t.Error("in the end:", problem)
	}
	checkTombstones(t, s.expect(t, before.objects, want))
}

func smallPages(o *informer.Options) { o.PageSize = 50 }

// records returns the number of records written to the store so far. It flushes dirty changes first.
func (s *subject) records(t *testing.T) uint64 {
	t.Helper()
	if err := s.file.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s.info(t).NextSeq
}

// checkTombstones checks that deletes found by a relist arrive as tombstones (cache.DeletedFinalStateUnknown). It does
// not compare their objects.
func checkTombstones(t *testing.T, c changes) {
	t.Helper()
	if len(c["delete"]) == 0 {
		t.Error("no deletes were told")
	}
	for key, n := range c["delete"] {
		if !n.tombstone {
			t.Errorf("the delete of %s came as an event, want a tombstone", key)
		}
	}
}

type readers struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex // mu guards the fields below
	old     int
	new     int
	mixture string
}

// watchReaders starts goroutines that list the informer's store. Each list must be one of two complete states, and the
// old state never follows the new state.
func watchReaders(t *testing.T, s *subject, before, after objects) *readers {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &readers{cancel: cancel}
	old, current := before.versions(), after.versions()
	for range 3 {
		r.wg.Go(func() {
			seenNew := false
			for ctx.Err() == nil {
				got := map[string]string{}
				for _, obj := range s.GetStore().List() {
					m := obj.(metav1.Object)
					got[m.GetNamespace()+"/"+m.GetName()] = m.GetResourceVersion()
				}
				isOld, isNew := maps.Equal(got, old), maps.Equal(got, current)
				r.note(isOld, isNew, seenNew, len(got))
				seenNew = seenNew || isNew
				if !soak { // readers must leave processors for the informer
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	t.Cleanup(func() { cancel(); r.wg.Wait() })
	return r
}

func (r *readers) note(isOld, isNew, seenNew bool, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case isNew:
		r.new++
	case isOld && !seenNew:
		r.old++
	case isOld:
		r.mixture = "the old state after the new one"
	default:
		r.mixture = fmt.Sprintf("%d objects that are neither the old state nor the new one", n)
	}
}

func (r *readers) sawOld(t *testing.T) {
	t.Helper()
	eventually(t, "a reader that sees the old state", func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.old == 0 && r.mixture == "" {
			return "none has"
		}
		return ""
	})
}

// stop waits until a reader has listed the new state, which takes long where readers decode all objects. It fails if a
// list was a mixture of the old and the new state.
func (r *readers) stop(t *testing.T) {
	t.Helper()
	eventually(t, "a reader that sees the new state", func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.new == 0 && r.mixture == "" {
			return "none has"
		}
		return ""
	})
	r.cancel()
	r.wg.Wait()
	if r.mixture != "" {
		t.Errorf("a reader saw %s", r.mixture)
	}
	if r.old == 0 || r.new == 0 {
		t.Errorf("readers saw the old state %d times and the new one %d times: the test shows nothing", r.old, r.new)
	}
}
