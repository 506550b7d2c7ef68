package snapshot_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	if os.Getenv(childMode) != "" {
		os.Exit(child())
	}
	// One of them spaces errors by sleeping until a millisecond after the last one, which was outside of the bubble: in
	// its future, by decades.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}
