package factory

import (
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// One of them delays errors that follow another within a millisecond. The last error may lie in the future, since
	// each synctest bubble has its own clock.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}
