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
	// One of the error handlers limits its rate: it sleeps until a millisecond after the previous error. That time, taken
	// outside of the synctest bubble, is decades in the bubble's future.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}
