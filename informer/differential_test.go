package informer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

func TestDifferential(t *testing.T) {
	quietHandlers(t)
	utilruntime.ReallyCrash = false
	klog.SetLogger(logr.Discard())
	t.Cleanup(klog.ClearLogger)
	total := map[string]int{}
	dir := t.TempDir()
	for seed := uint64(1); seed <= 2000; seed++ {
		fails, count := generate(seed).run(t, dir, nil)
		for k, n := range count {
			total[k] += n
		}
		if len(fails) > 0 {
			t.Fatalf("%v%s", generate(seed), strings.Join(fails, "\n"))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(total)) {
		fmt.Printf("%6d %s\n", total[k], k)
	}
}
