package informer_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// One of utilruntime.ErrorHandlers sleeps if the previous error was less than a millisecond ago. That error may lie
	// in the future, since each synctest bubble has its own clock.
	utilruntime.ErrorHandlers = nil
	// With the race detector rapid's default of 100 checks takes half a minute per model. make soak runs 5000.
	if err := flag.Set("rapid.checks", "50"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
