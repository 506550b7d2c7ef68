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

type soakRun struct {
	pods int
	// laps is the number of measured laps, each the run of one informer. warmUp laps precede them.
	laps, warmUp int
	// perLap is the number of writes in one lap, made at soakRate.
	perLap int
	// residencies alternate from lap to lap.
	residencies []store.Residency
	leak        leak
}

// soakReopens is the number of laps after which the store is closed and opened again. In other laps the next informer
// uses the open store. soakReopens and the number of residencies are coprime, so that each residency meets both cases.
const soakReopens = 3

// shortSoak takes ten seconds. It detects a leak of one object in four updates.
var shortSoak = soakRun{
	pods: 1000, laps: 18, warmUp: 3, perLap: 100,
	residencies: []store.Residency{store.All, store.None},
}

var longSoak = soakRun{
	pods: 5000, laps: 114, warmUp: 6, perLap: 5000, residencies: shortSoak.residencies,
}

// TestSoak checks that under a steady load, with one informer after another in a process, neither the live heap nor the
// goroutines nor the file grow, and that no change is lost. LARDER_SOAK=1 runs the test for twenty minutes.
//
// The test uses kube-apiserver, so that the heap excludes the server's memory, and restarts leave the state of real
// connections.
func TestSoak(t *testing.T) {
	run, cp := shortSoak, shared
	if soak {
		// The audit log of 600,000 writes would slow down later tests on the shared server.
		run, cp = longSoak, ownControlPlane(t)
	}
	for _, problem := range run.do(t, cp) {
		t.Error(problem)
	}
}

// TestSoakFindsLeaks checks that the soak test detects a leak of one object in five updates, and of one goroutine per
// restart.
func TestSoakFindsLeaks(t *testing.T) {
	run := soakRun{pods: 100, laps: 9, warmUp: 1, perLap: 250, residencies: []store.Residency{store.None}}
	run.leak = leak{every: 5, goroutines: make(chan struct{})}
	defer close(run.leak.goroutines)
	found := run.do(t, shared)
	if t.Log(found); len(found) != 2 {
		t.Errorf("found %d problems, want that of the heap and that of the goroutines", len(found))
	}
}

func (r *soakRun) do(t *testing.T, cp *controlplane.ControlPlane) (problems []string) {
	c := newCluster(t, cp)
	f := newFile(t)
	begun := time.Now()
	l := newSoakLoad(c, r.pods)
	l.write(t, r.pods)
	source := podSource(t, c.Config(t.Name()), c.ns)
	samples := map[store.Residency][]soakSample{}
	var now *soakLap
	var writing sync.WaitGroup
	defer func() { // stops the informer if the test fails
		writing.Wait()
		now.stop()
	}()
	for n := range r.warmUp + r.laps {
		writing.Go(func() { l.write(t, r.perLap) })
		// The writes continue while no informer runs.
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

func (l *soakLap) stop() {
	if l != nil {
		l.cancel()
		<-l.done
	}
}

// sample waits until the handler has the server's state, reads all objects, and commits. Then it measures heap,
// goroutines and file.
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

// steadyHeap returns the size of the live heap once two measurements agree, so that background reads have ended.
func steadyHeap() int64 {
	for last := int64(0); ; {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // the first collection may leave objects in sync.Pools
		runtime.ReadMemStats(&m)
		now := int64(m.HeapAlloc)
		if d := now - last; -soakSteady < d && d < soakSteady {
			return now
		}
		last = now
		time.Sleep(50 * time.Millisecond)
	}
}

// soakSteady is the difference in bytes up to which steadyHeap accepts two measurements as equal.
const soakSteady = 64 << 10
