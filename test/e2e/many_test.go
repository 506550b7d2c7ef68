package e2e

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

type manyRun struct {
	// namespaces is the number of namespaces. Each namespace has one rarely changed collection of every kind in
	// quietKinds.
	namespaces int
	// pods is the number of objects in the busy collection. backlog is the number of changes of these pods that wait for
	// the blocked informer, while changes of other collections are delivered.
	pods, backlog int
	// rounds is how often informers are stopped and restarted during writes to the busy collection. leave is the number of
	// informers that stop in each round.
	rounds, leave int
}

var (
	shortMany = manyRun{namespaces: 40, pods: 400, backlog: 400, rounds: 2, leave: 30}
	longMany  = manyRun{namespaces: 300, pods: 5000, backlog: 20_000, rounds: 30, leave: 200}
)

// The limiter of a store's connection to the API server admits this many concurrent connects and lists.
const (
	connectLimit = 8
	listLimit    = 2
	// burst and listBurst are the maximum numbers of concurrent requests and lists that the test accepts. On busy cores a
	// request may begin after the limiter has stopped counting it, so the bounds are twice the limits. The tests of the
	// limiter have exact bounds, in fake time.
	burst     = 2 * (connectLimit + listLimit)
	listBurst = 2 * listLimit
)

// TestManyInformers runs hundreds of collections in one file and process. Informers stop and restart while one kind is
// busy. Changes of the quiet kinds must arrive even if the busy informer is blocked. A restart of all informers must
// list nothing. Neither a start nor a restart may send a burst of requests. Dropped collections must leave nothing
// behind, and new collections must reuse their space in the file.
func TestManyInformers(t *testing.T) {
	run, cp := shortMany, shared
	if soak {
		run, cp = longMany, ownControlPlane(t)
	}
	c, n := newCluster(t, cp), &traffic{}
	w := newPopulation(t, c, run)
	w.reach(t, n.of(c.Config(t.Name())))
	goroutines := runtime.NumGoroutine()
	begun := time.Now()
	lap := func(what string) {
		total, asking, lists := n.sinceReset()
		t.Logf("%s: %v, %d requests, at most %d unanswered and %d lists at a time", what,
			time.Since(begun).Round(10*time.Millisecond), total, asking, lists)
		if asking > burst || lists > listBurst {
			t.Errorf("%s: %d requests at a time, %d lists: a burst", what, asking, lists)
		}
		begun = time.Now()
	}

	w.start(t, w.all())
	lap("cold start of all")
	took := w.touch(t, w.quiet, "idle")
	t.Logf("%d quiet changes were heard: %s", len(took), took)
	lap("quiet changes, nothing else")
	w.churn(t, run)
	lap("coming and going beside a busy collection")
	w.blockBusy(t, run)
	lap("quiet changes while the busy collection stands still")
	w.converge(t)
	lap("everybody has what the server has")

	w.end(w.all())
	w.file.close(t)
	heap := w.checkLeftovers(t, goroutines, 0)
	agent := t.Name() + "/restart"
	w.reach(t, n.of(c.Config(agent)))
	c.mark(t)
	lap("stop of all")
	w.start(t, w.all())
	lap("restart of all")
	t.Logf("%d goroutines, %d for each informer", runtime.NumGoroutine(), runtime.NumGoroutine()/len(w.all()))
	w.listedNothing(t, agent)
	w.converge(t)
	w.checkReuse(t)
	w.file.close(t)
	lap("dropped, listed again and dropped")
	w.checkLeftovers(t, goroutines, heap)
}

// churn repeatedly stops and restarts informers while the busy collection changes as fast as the server permits. Every
// second stopped collection is dropped, so its informer must list.
func (w *population) churn(t *testing.T, run manyRun) {
	t.Helper()
	stop := w.keepBusy(t, run.pods)
	var took delays
	for round := range run.rounds {
		leave := make([]*member, run.leave)
		for n := range leave {
			leave[n] = w.quiet[(round*run.leave+n)%len(w.quiet)]
		}
		w.end(leave)
		for n, m := range leave {
			if n%2 == 0 {
				if err := w.file.Drop(t.Context(), m.identity); err != nil {
					t.Error(err)
				}
			}
		}
		w.start(t, leave)
		for n, m := range leave {
			if lists := m.inf.Status().Reflector.Lists; lists != (n+1)%2 {
				t.Errorf("%s was listed %d times; dropped before: %t", m.name, lists, n%2 == 0)
			}
		}
		took = append(took, w.touch(t, w.quiet, "busy"+strings.Repeat("+", round))...)
	}
	stop()
	t.Logf("%d quiet changes were heard beside %d changes of busy pods: %s", len(took), w.writes.Load(), took)
}

// blockBusy blocks the informer of the busy collection in its transform, with a backlog of changes. The changes of all
// other collections must be delivered nevertheless.
func (w *population) blockBusy(t *testing.T, run manyRun) {
	t.Helper()
	standing, goOn := make(chan struct{}), make(chan struct{})
	stand := sync.OnceFunc(func() { close(standing); <-goOn })
	w.end([]*member{w.busy})
	defer func() { w.busy.transform = nil }()
	w.busy.transform = func(obj any) (any, error) {
		if p, ok := obj.(*corev1.Pod); ok && p.Annotations["fence"] != "" {
			stand()
		}
		return obj, nil
	}
	release := sync.OnceFunc(func() { close(goOn) })
	defer release()
	w.start(t, []*member{w.busy})
	w.annotate(t, "busy-00000", "fence")
	<-standing
	backlog := names("busy", 1, run.pods)
	for n := 0; n < run.backlog; n += len(backlog) {
		w.touchPods(t, backlog, time.Now().String())
	}
	before := w.busy.handler.updateCount()
	took := w.touch(t, w.quiet, "behind")
	if after := w.busy.handler.updateCount(); after != before {
		t.Errorf("the busy handler was told %d changes meanwhile: there was no backlog", after-before)
	}
	t.Logf("%d quiet changes were heard while the busy collection stood still: %s", len(took), took)
	release()
}

func (w *population) listedNothing(t *testing.T, agent string) {
	t.Helper()
	all, err := w.Requests(agent, w.since)
	if err != nil {
		t.Fatal(err)
	}
	verbs, lists := map[string]int{}, 0
	for _, r := range all {
		verbs[r.Verb]++
		if r.List() {
			lists++
			t.Log(r)
		}
	}
	t.Logf("the restart of %d informers asked for %v", len(w.quiet)+1, verbs)
	if lists > 0 || verbs["watch"] < len(w.quiet)+1 {
		t.Errorf("%d lists; %v", lists, verbs)
	}
}

// checkReuse checks that the file does not grow if all collections are dropped and listed again. After they are dropped
// once more, the file can be compacted.
func (w *population) checkReuse(t *testing.T) {
	t.Helper()
	size := func(what string) (total, free int64) {
		t.Helper()
		err := w.file.Flush(t.Context())
		if err == nil {
			total, free, err = w.file.Size()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: the file has %d KiB, %d of them free", what, total>>10, free>>10)
		return total, free
	}
	drop := func() {
		t.Helper()
		w.end(w.all())
		for _, m := range w.all() {
			if err := w.file.Drop(t.Context(), m.identity); err != nil {
				t.Error(err)
			}
		}
		if left, err := w.file.Collections(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("%d collections are left, %v", len(left), err)
		}
	}
	before, _ := size("with everything")
	drop()
	total, free := size("dropped")
	w.start(t, w.all())
	w.converge(t)
	if total, _ := size("listed again"); total > before {
		t.Errorf("the file has grown from %d to %d bytes", before, total)
	}
	drop()
	done, err := w.file.Compact(t.Context())
	t.Logf("compacted: %+v", done)
	if err != nil || done.After >= done.Before || total != before || total-free > done.After+256<<10 {
		t.Errorf("compact: %+v, %v; with nothing in it the file had %d bytes, %d of them free", done, err, total, free)
	}
}

// checkLeftovers checks that stopped informers leave no goroutines, and that the heap has not grown if its size before
// is known. It returns the heap size.
func (w *population) checkLeftovers(t *testing.T, goroutines int, before int64) (heap int64) {
	t.Helper()
	if err := leftBehind(); err != nil {
		t.Error(err)
	}
	heap = steadyHeap()
	t.Logf("nothing runs: %d goroutines, %d at the beginning; %d KiB of live heap, %d before", runtime.NumGoroutine(),
		goroutines, heap>>10, before>>10)
	if more := runtime.NumGoroutine() - goroutines; more > manyGoroutines {
		t.Errorf("%d goroutines more than at the beginning", more)
	}
	if before > 0 && heap-before > manyHeap {
		t.Errorf("%d bytes of live heap more than before", heap-before)
	}
	return heap
}

// manyGoroutines and manyHeap (bytes) allow for client-go's connections, which all informers share.
const (
	manyGoroutines = 60
	manyHeap       = 1 << 20
)
