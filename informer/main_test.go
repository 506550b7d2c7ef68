package informer_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// One of utilruntime.ErrorHandlers sleeps if the previous error was reported less than a millisecond ago. In a
	// synctest bubble that report may lie in the future, because each bubble has a clock of its own.
	utilruntime.ErrorHandlers = nil
	// With the race detector rapid's default of 100 checks takes half a minute per model. make soak runs 5000.
	if err := flag.Set("rapid.checks", "50"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
