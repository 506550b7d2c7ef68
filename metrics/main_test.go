package metrics

import (
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// One of the error handlers limits its rate: it sleeps until a millisecond after the previous error, which may be in
	// the future of another bubble.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}
