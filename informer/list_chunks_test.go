package informer_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

// fat is a transform that enlarges pods to a megabyte, so that the store writes a list in several transactions.
func fat(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	pod = pod.DeepCopy()
	pod.Annotations = map[string]string{"fat": strings.Repeat("x", 1<<20)}
	return pod, nil
}

// openBehind returns an informer whose store differs from the server by at least three transactions, and the expected
// calls of a handler.
func openBehind(t *testing.T, r *rig) (i *informer.Informer, changes []string) {
	t.Helper()
	r.o.Residency, r.o.TransformVersion = store.None, informer.Unversioned
	key := func(ns string, n int) string { return fmt.Sprintf("%s/%02d", ns, n) }
	old := map[int]*corev1.Pod{}
	for n := range 24 {
		old[n] = r.srv.write(key("a", n), "x")
	}
	if err := r.open().SetTransform(fat); err != nil {
		t.Fatal(err)
	}
	r.run()
	r.close()
	for n := range 24 {
		if n%2 == 0 {
			r.srv.delete(key("a", n))
			changes = append(changes, fmt.Sprintf("gone %s last %s", key("a", n), describe(old[n])))
		}
	}
	for n := range 24 {
		if n%2 == 1 {
			changes = append(changes, fmt.Sprintf("update %s to %s", describe(old[n]), describe(r.srv.write(key("a", n), "y"))))
		}
	}
	for n := range 2 {
		changes = append(changes, "add "+describe(r.srv.write(key("b", n), "x"))+" initial")
	}
	r.srv.compact()
	i = r.open()
	if err := i.SetTransform(fat); err != nil {
		t.Fatal(err)
	}
	return i, changes
}

// afterInitial drops the handler's calls for the objects stored at the start.
func afterInitial(lines []string) []string {
	for n, line := range lines {
		if !strings.HasPrefix(line, "add a/") {
			return lines[n:]
		}
	}
	return nil
}

// TestListInSeveralTransactions checks that handlers get the changes after each transaction, deletes first. A handler
// that registers between two transactions gets the objects stored then, and the later changes.
func TestListInSeveralTransactions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		w := &witness{}
		r.o.Observer = w
		_, want := openBehind(t, r)
		w.take()
		var mu sync.Mutex
		var late []*recorder
		w.check = func(i *informer.Informer) {
			mu.Lock()
			defer mu.Unlock()
			h := &recorder{}
			late = append(late, h)
			if _, err := i.AddEventHandler(h); err != nil {
				t.Error(err)
			}
		}
		h := &recorder{}
		r.run(h)
		time.Sleep(time.Minute)
		synctest.Wait()
		lines := h.take()
		equal(t, "changes", afterInitial(lines), want)
		replay(t, map[string]string{}, lines)
		commits := slices.DeleteFunc(w.take(), func(line string) bool { return !strings.HasPrefix(line, "commit") })
		if len(commits) == 0 {
			t.Error("nothing was committed")
		}
		mu.Lock()
		defer mu.Unlock()
		for n, l := range late {
			known := map[string]string{}
			replay(t, known, l.take())
			equal(t, fmt.Sprintf("handler that came after transaction %d", n+1), sortedValues(known), r.srv.state())
		}
		r.close()
	})
}

// commitFaults is a store that fails one Commit of a list.
type commitFaults struct {
	store.Interface
	mu  sync.Mutex
	err error
	at  int // at is the number of Commits that succeed before the failing one
}

func (s *commitFaults) BeginReplace(ctx context.Context, o store.ReplaceOptions) (store.Replacement, error) {
	r, err := s.Interface.BeginReplace(ctx, o)
	return &commitFault{r, s}, err
}

type commitFault struct {
	store.Replacement
	s *commitFaults
}

func (r *commitFault) Commit(ctx context.Context, b entry.Batch) (entry.Result, error) {
	r.s.mu.Lock()
	r.s.at--
	fails := r.s.at == -1
	r.s.mu.Unlock()
	if !fails {
		return r.Replacement.Commit(ctx, b)
	}
	return entry.Result{}, r.s.err
}

func (s *commitFaults) done() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at < 0
}

// TestListFailsBetweenTransactions checks that handlers get each change once. LARDER_SOAK=1 tries all kinds of faults
// in every transaction.
func TestListFailsBetweenTransactions(t *testing.T) {
	for name, fault := range map[string]*commitFaults{
		"no space":        {err: store.ErrNoSpace},
		"outcome unknown": {err: store.ErrOutcomeUnknown},
	} {
		for at := range 3 {
			if at != 1 && name != "no space" && os.Getenv("LARDER_SOAK") == "" {
				continue
			}
			t.Run(fmt.Sprintf("%s, transaction %d", name, at+1), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					r := newRig(t)
					i, want := openBehind(t, r)
					f := &commitFaults{Interface: informer.Store(i), err: fault.err, at: at}
					informer.SetStore(i, f)
					h := &recorder{}
					r.run(h)
					time.Sleep(10 * time.Minute)
					synctest.Wait()
					lines := h.take()
					received := map[string]int{}
					for _, line := range afterInitial(lines) {
						received[keyIn(strings.Fields(line)[1])]++
					}
					for _, line := range want {
						if key := keyIn(strings.Fields(line)[1]); received[key] != 1 {
							t.Errorf("%s was received %d times", key, received[key])
						}
					}
					known := map[string]string{}
					replay(t, known, lines)
					equal(t, "handler", sortedValues(known), r.srv.state())
					if !f.done() {
						t.Error("nothing has failed")
					}
					r.close()
				})
			})
		}
	}
}
