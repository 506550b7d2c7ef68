package fleet

import (
	"flag"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

var (
	agents = flag.Int("fleet.agents", 40, "how many agents there are")
	out    = flag.String("fleet.out", "", "directory for fleet.json and fleet.svg")
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	// The default handler holds a lock while it sleeps, and time stands still for a bubble while one of its goroutines waits for a lock.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}

// TestFleet runs every scenario with every kind of agent.
func TestFleet(t *testing.T) {
	flag.Parse()
	t.Log("\n" + heading)
	for _, sc := range scenarios {
		for _, c := range []client{larder, clientGo, clientGoGet} {
			t.Run(sc.Name+"/"+c.Name, func(t *testing.T) {
				s := summarize(sc, c, *agents, simulate(t, sc, c, *agents))
				fmt.Println(s)
			})
		}
	}
}
