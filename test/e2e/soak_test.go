package e2e

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/test/e2e/controlplane"
)

// soakRun is how long, and over how much, a soak goes.
type soakRun struct {
	pods int
	// laps are the lives of an informer that are compared, and warmUp those before them.
	laps, warmUp int
	// perLap is how many writes a lap has, at soakRate.
	perLap int
	// residencies are taken in turn.
	residencies []store.Residency
	// leak is planted, to see that it is found. Default: none.
	leak leak
}

// soakReopens: before each lap that this divides the store is closed and opened again, and else the next informer takes
// it over. It has no divisor in common with the number of residencies, so that each meets both.
const soakReopens = 3

// shortSoak takes ten seconds. One object that is kept in four updates shows.
var shortSoak = soakRun{
	pods: 1000, laps: 18, warmUp: 3, perLap: 100,
	residencies: []store.Residency{store.All, store.None},
}

// longSoak writes for twenty minutes.
var longSoak = soakRun{
	pods: 5000, laps: 114, warmUp: 6, perLap: 5000, residencies: shortSoak.residencies,
}

// TestSoak: under a steady load, with one informer after the other in the same process, neither the live heap nor the
// number of goroutines nor the file grows, and nothing is lost. LARDER_SOAK=1 does it for twenty minutes.
//
// It is on a real server: the server's memory is then not this process's, and what may be left behind at a restart is
// what a real connection needs.
func TestSoak(t *testing.T) {
	run, cp := shortSoak, shared
	if soak {
		// Later tests would have to read the audit log of 600,000 writes.
		run, cp = longSoak, ownControlPlane(t)
	}
	for _, problem := range run.do(t, cp) {
		t.Error(problem)
	}
}

// A test that cannot fail shows nothing: one object in five updates, and one goroutine a restart, are found.
func TestSoakFindsLeaks(t *testing.T) {
	run := soakRun{pods: 100, laps: 9, warmUp: 1, perLap: 250, residencies: []store.Residency{store.None}}
	run.leak = leak{every: 5, goroutines: make(chan struct{})}
	defer close(run.leak.goroutines)
	found := run.do(t, shared)
	if t.Log(found); len(found) != 2 {
		t.Errorf("found %d problems, want that of the heap and that of the goroutines", len(found))
	}
}

// do runs the laps and says what has grown.
func (r *soakRun) do(t *testing.T, cp *controlplane.ControlPlane) (problems []string) {
	c := newCluster(t, cp)
	f := newFile(t)
	begun := time.Now()
	l := newSoakLoad(c, r.pods)
	l.write(t, r.pods) // each write of a pod that is not there creates it
	source := podSource(t, c.Config(t.Name()), c.ns)
	samples := map[store.Residency][]soakSample{}
	var now *soakLap
	var writing sync.WaitGroup
	defer func() { // what a failure leaves
		writing.Wait()
		now.stop()
	}()
	for n := range r.warmUp + r.laps {
		writing.Go(func() { l.write(t, r.perLap) })
		// The writes go on while there is no informer.
		now.stop()
		if n%soakReopens == 0 {
			f.close(t)
		}
		residency := r.residencies[n%len(r.residencies)]
		now = r.start(t, f, source, residency)
		writing.Wait()
		if sample := now.sample(t, l.versions()); n >= r.warmUp {
			samples[residency] = append(samples[residency], sample)
		}
	}
	now.stop()
	t.Logf("%s; %s with the pauses for samples", l.pace(), time.Since(begun).Round(time.Second))
	f.close(t)
	if problem := c.pods(t).diff(f.read(t, source.identity, source.example).objects); problem != "" {
		t.Error("at the end, on disk:", problem)
	}
	for _, residency := range r.residencies {
		problems = append(problems, grown(t, residency.String(), samples[residency])...)
	}
	return problems
}

// soakLap is the life of one informer, with a handler.
type soakLap struct {
	*informer.Informer
	*mirror
	file   *file
	cancel context.CancelFunc
	done   chan struct{}
}

func (r *soakRun) start(t *testing.T, f *file, src source, residency store.Residency) *soakLap {
	t.Helper()
	if f.Store == nil {
		f.open(t)
	}
	r.leak.restart()
	i, err := informer.New(src.lw, src.example,
		informer.Options{Store: f.Store, Identity: src.identity, Residency: residency})
	if err != nil {
		t.Fatal(err)
	}
	l := &soakLap{Informer: i, mirror: &mirror{versions: map[string]string{}, leak: &r.leak}, file: f,
		done: make(chan struct{})}
	if _, err := i.AddEventHandler(l.mirror); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	l.cancel = cancel
	go func() {
		defer close(l.done)
		i.RunWithContext(ctx)
	}()
	return l
}

// stop ends the informer, if there is one, and returns when Run has.
func (l *soakLap) stop() {
	if l != nil {
		l.cancel()
		<-l.done
	}
}

// sample waits until the handler has been told everything, reads everything, and commits. Then it counts.
func (l *soakLap) sample(t *testing.T, want map[string]string) soakSample {
	t.Helper()
	eventually(t, "telling the handler", func() string { return l.mirror.diff(want) })
	for key, version := range want {
		if obj, found, err := l.GetStore().GetByKey(key); err != nil || !found || versionOf(obj) != version {
			t.Fatalf("GetByKey(%s): found %t, RV %q, want %q; %v", key, found, versionOf(obj), version, err)
		}
	}
	if err := l.file.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var s soakSample
	var err error
	if s.file, _, err = l.file.Size(); err != nil {
		t.Fatal(err)
	}
	s.heap = steadyHeap()
	s.goroutines = runtime.NumGoroutine()
	return s
}

// steadyHeap is the live heap once it is the same twice: what is read in the background has been read then.
func steadyHeap() int64 {
	for last := int64(0); ; {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // the first may leave what sync.Pools hold
		runtime.ReadMemStats(&m)
		now := int64(m.HeapAlloc)
		if d := now - last; -soakSteady < d && d < soakSteady {
			return now
		}
		last = now
		time.Sleep(50 * time.Millisecond)
	}
}

// soakSteady is by how much less a steady heap may differ.
const soakSteady = 64 << 10
