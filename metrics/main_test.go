package metrics

import (
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// One of them spaces errors by sleeping until a millisecond after the last one, which may have been
	// in another bubble's future.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}
