package store_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childMode) != "" {
		os.Exit(child())
	}
	// With the race detector, rapid's default of 100 checks takes minutes for each model test. "make soak" runs 5000.
	if err := flag.Set("rapid.checks", "4"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
