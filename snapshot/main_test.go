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
	// One of client-go's error handlers sleeps until a millisecond after the previous error. The fake time of a synctest
	// bubble is decades behind the real time of that error, so the handler would sleep for decades.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}
