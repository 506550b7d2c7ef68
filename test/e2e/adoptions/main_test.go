// Package adoptions tests third-party controllers on Larder: sample-controller, the descheduler and LWS. Each program
// comes from the Go module proxy at a pinned version. It is built twice from temporary copies with Larder's client-go:
// unchanged, and with its patch of examples/adoptions.
//
// TestPatches is quick: the patches apply, change at most 25 lines, and match the table of
// examples/adoptions/README.md. The other tests run with make adoptions, because the builds take many minutes.
package adoptions

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/larder-dev/larder/test/e2e/controlplane"
)

var long = os.Getenv("LARDER_SOAK") != ""

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

func onlyLong(t *testing.T) {
	t.Helper()
	if !long {
		t.Skip("the programs take long to build: make adoptions")
	}
}
