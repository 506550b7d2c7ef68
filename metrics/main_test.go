package metrics

import (
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// One of utilruntime.ErrorHandlers sleeps if the previous error was less than a millisecond ago. That error may lie in
	// the future, since each synctest bubble has its own clock.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}
