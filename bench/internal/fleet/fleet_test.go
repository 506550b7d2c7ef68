package fleet

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

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
	// The default handler holds a lock while it sleeps, and time stands still for a bubble while one of its goroutines
	// waits for a lock.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}

// TestFleet runs every scenario with every kind of agent, and wants of Larder's that they list only if the history is
// lost, and then once each and not all at a time.
func TestFleet(t *testing.T) {
	var runs []summary
	table := "\n" + heading
	for _, sc := range scenarios {
		clients := []client{larder, clientGo, clientGoGet}
		if sc.lost {
			clients = append(clients, spreading)
		}
		for _, c := range clients {
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

// check is what must hold for any number of agents.
func check(t *testing.T, sc scenario, c client, s summary) {
	if s.All < 0 {
		t.Errorf("%.0f %% of the agents were up to date at the end", s.Series.Level[len(s.Series.Level)-1])
	}
	if c.Name != larder.Name && c.Name != spreading.Name {
		return
	}
	want := 0
	if sc.lost {
		want = s.Agents
	}
	if s.Lists != want {
		t.Errorf("%d lists by %d agents, want %d", s.Lists, s.Agents, want)
	}
	if most := s.Agents/5 + 10; s.PeakLists > most {
		t.Errorf("%d lists were begun in one second, want at most %d", s.PeakLists, most)
	}
	// What it takes to send all objects to a hundredth of the agents, twice.
	if most := 2 * float64(s.Agents) * watchListCost.bytes / 1e9 / 100; !sc.lost && s.GB > most {
		t.Errorf("%.1f GB were received, want at most %.1f", s.GB, most)
	}
}
