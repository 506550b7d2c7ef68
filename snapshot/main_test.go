package snapshot

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childMode) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}
