// Package adoptions puts Larder under controllers that nobody here wrote: sample-controller, the descheduler and LWS.
// Each comes from the Go module proxy, in a pinned version, and is built twice in temporary copies of its module, as it
// is and with its patch of examples/adoptions, both with the client-go that Larder requires.
//
// TestPatches is quick: the patches apply, have 25 lines at most, and are those that examples/adoptions/README.md
// lists. The rest is for make adoptions, because to build the programs and their unit tests takes many minutes:
// TestUnitTests runs their own tests, with and without Larder, and TestRestarts kills the programs on a real API
// server.
package adoptions

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/larder-dev/larder/test/e2e/controlplane"
)

// long asks for the tests that build the programs.
var long = os.Getenv("LARDER_SOAK") != ""

// server is the API server of TestRestarts; nil if that is not asked for.
var server *controlplane.ControlPlane

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/adoptions:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if !long {
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "larder-e2e-adoptions-")
	if err != nil {
		return 1, err
	}
	server, err = controlplane.Start(context.Background(), controlplane.Options{Dir: dir})
	if err != nil {
		return 1, err
	}
	code = m.Run()
	if err := server.Stop(); err != nil {
		return 1, err
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, "e2e/adoptions: logs are in", dir)
		return code, nil
	}
	return code, os.RemoveAll(dir)
}

// onlyLong skips what takes many minutes, unless it is asked for.
func onlyLong(t *testing.T) {
	t.Helper()
	if !long {
		t.Skip("the programs take long to build: make adoptions")
	}
}
