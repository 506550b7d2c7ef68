package informer_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

var (
	diffScripts = flag.Int("differential.scripts", 0,
		"how many scripts TestDifferential runs; 0 is 500, or 20,000 with LARDER_SOAK=1")
	diffSeed = flag.Uint64("differential.seed", 1, "the first script's seed; each next one's is one higher")
)

// surviveHandlers makes the process survive handlers' panics, and keeps these panics and the informers' logs out of the
// test's output.
func surviveHandlers(t *testing.T) {
	t.Helper()
	quietHandlers(t)
	old := utilruntime.ReallyCrash
	utilruntime.ReallyCrash = false
	klog.SetLogger(logr.Discard())
	t.Cleanup(func() {
		utilruntime.ReallyCrash = old
		klog.ClearLogger()
	})
}

// TestDifferential runs our informer and client-go's on the same scripts of user and server actions, generated from
// seeds. Each informer has its own server; both servers have the same pods and perform the same actions. The table in
// docs/compatibility.md lists the permitted differences as rules. Apart from these the informers must agree in:
//
//   - after each step the visible state: synced, stopped, which handlers are synced, busy or shut down, and all names;
//   - the calls of each handler, with their arguments and times. If connections were lost, the calls about each pod
//     must follow that pod's history, and skip only states that a list can skip;
//   - the log lines about handlers, the reported errors, the stored objects, indexes and resourceVersions;
//   - the end: no goroutine may remain.
//
// The test also fails if a rule is needed in no script.
func TestDifferential(t *testing.T) {
	surviveHandlers(t)
	n, all := *diffScripts, *diffScripts == 0
	switch {
	case n > 0:
	case os.Getenv("LARDER_SOAK") != "":
		n = 20000
	default:
		n = 500
	}
	total := runScripts(t, *diffSeed, n, diffWorkers)
	if t.Failed() {
		return
	}
	t.Logf("%d scripts, seeds from %d: no difference that is not in the table", n, *diffSeed)
	for _, name := range ruleNames() {
		if all && total["rule "+name] == 0 {
			t.Errorf("no script needed the rule %s: remove it from docs/compatibility.md", name)
		}
	}
	if testing.Verbose() {
		for _, k := range slices.Sorted(maps.Keys(total)) {
			t.Logf("%8d %s", total[k], k)
		}
	}
}

const diffWorkers = 2

// runScripts runs n scripts and sums their coverage counts. It shrinks and prints the first failing script.
func runScripts(t *testing.T, first uint64, n, workers int) map[string]int {
	dir := t.TempDir()
	var mu sync.Mutex
	total := map[string]int{}
	next, failed := first, false
	work := func(t *testing.T) {
		for {
			mu.Lock()
			seed := next
			next++
			over := failed || seed >= first+uint64(n)
			mu.Unlock()
			if over {
				return
			}
			s := generate(seed)
			fails, count := s.run(t, dir, nil)
			mu.Lock()
			for k, n := range count {
				total[k] += n
			}
			mine := len(fails) > 0 && !failed
			failed = failed || len(fails) > 0
			mu.Unlock()
			if mine {
				t.Logf("%v%s", s, strings.Join(fails, "\n"))
				s, fails = s.shrink(t, dir, fails)
				t.Errorf(
					"go test ./informer -run 'TestDifferential$' -differential.seed=%d -differential.scripts=1\nshrunk to %v%s", seed,
					s, strings.Join(fails, "\n"))
			}
		}
	}
	t.Run("scripts", func(t *testing.T) {
		for w := range workers {
			t.Run(fmt.Sprint(w), func(t *testing.T) {
				t.Parallel()
				work(t)
			})
		}
	})
	return total
}

// shrink removes steps from a failing script, as long as it still fails.
func (s script) shrink(t *testing.T, dir string, fails []string) (script, []string) {
	for size := len(s.ops) / 2; size > 0; size /= 2 {
		for from := 0; from+size <= len(s.ops); {
			shorter := s
			shorter.ops = slices.Delete(slices.Clone(s.ops), from, from+size)
			if got, _ := shorter.run(t, dir, nil); len(got) > 0 {
				s, fails = shorter, got
			} else {
				from += size
			}
		}
	}
	return s, fails
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
