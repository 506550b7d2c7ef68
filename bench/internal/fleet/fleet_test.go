package fleet

import (
	"context"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

var (
	agents = flag.Int("fleet.agents", 40, "how many agents there are")
	out    = flag.String("fleet.out", "", "directory for fleet.json and fleet.svg; default: none are written")
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	// client-go's default error handler sleeps while it holds a lock. In a synctest bubble, time stands still while a
	// goroutine waits for a lock.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}

// TestFleet runs every scenario with every kind of agent. Larder's agents may list only if the history is lost, or if
// they start without state and seed: once for each agent, and spread over time.
func TestFleet(t *testing.T) {
	var runs []summary
	table := "\n" + heading
	for _, sc := range scenarios {
		for _, c := range sc.clients() {
			t.Run(sc.Name+"/"+c.Name, func(t *testing.T) {
				s := summarize(sc, c, *agents, simulate(t, sc, c, *agents))
				check(t, sc, c, s)
				runs = append(runs, s)
				table += "\n" + s.String()
			})
		}
	}
	t.Log(table)
	if *out == "" || t.Failed() {
		return
	}
	raw, err := json.Marshal(runs)
	if err == nil {
		err = os.WriteFile(filepath.Join(*out, "fleet.json"), append(raw, '\n'), 0o644)
	}
	if err == nil {
		err = writePlot(filepath.Join(*out, "fleet.svg"), runs)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func check(t *testing.T, sc scenario, c client, s summary) {
	if s.All < 0 {
		t.Errorf("%.0f %% of the agents were up to date at the end", s.Series.Level[len(s.Series.Level)-1])
	}
	if c.Name == clientGo.Name || c.Name == clientGoGet.Name {
		return
	}
	want := sc.lists(c, s.Agents)
	if s.Lists != want {
		t.Errorf("%d lists by %d agents, want %d", s.Lists, s.Agents, want)
	}
	if most := s.Agents/5 + 10; s.PeakLists > most {
		t.Errorf("%d lists were begun in one second, want at most %d", s.PeakLists, most)
	}
	// The bound is the size of all objects for a hundredth of the agents, twice.
	if most := 2 * float64(s.Agents) * watchListCost.bytes / 1e9 / 100; want == 0 && s.GB > most {
		t.Errorf("%.1f GB were received, want at most %.1f", s.GB, most)
	}
}

// simulate runs a scenario with n agents, and returns a sample for each second since time zero.
func simulate(t *testing.T, sc scenario, c client, n int) (samples []sample) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		s, within := newServer(sc), spread
		time.Sleep(time.Minute) // gives the server some history
		agents := make([]agent, n)
		for i := range agents {
			agents[i] = c.prepare(s)
		}
		if sc.restart {
			if within = startWithin; sc.first {
				time.Sleep(seedAge)
			} else {
				time.Sleep(outage)
			}
			s.begin()
		}
		var level atomic.Int64
		for _, run := range agents {
			wg.Go(func() {
				if sleep(ctx, rand.N(within)) == nil {
					run(ctx, levelOnce(s, &level))
				}
			})
		}
		if !sc.restart {
			time.Sleep(2 * spread)
			s.begin()
		}
		for done := false; !done; time.Sleep(time.Second) {
			samples = append(samples, sample{tally: s.count(tally{}), CPU: s.cpu.usage(), Level: int(level.Load())})
			passed := time.Duration(len(samples)-1) * time.Second
			done = passed >= longest || passed >= watched && int(level.Load()) == n
		}
	})
	return samples
}

// levelOnce returns the function that an agent calls when its state equals the server's. The first such call after time
// zero, when the scenario starts, increments level.
func levelOnce(s *server, level *atomic.Int64) func() {
	var once sync.Once
	return func() {
		if s.begun() {
			once.Do(func() { level.Add(1) })
		}
	}
}
