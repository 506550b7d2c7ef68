package informer_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// One of them spaces errors by sleeping until a millisecond after the last one, which may have been
	// in another bubble's future.
	utilruntime.ErrorHandlers = nil
	// Under the race detector rapid's 100 checks for each model take half a minute; make soak has 5000.
	if err := flag.Set("rapid.checks", "50"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
