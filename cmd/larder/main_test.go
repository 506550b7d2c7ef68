package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/larder-dev/larder/internal/cli"
	"github.com/larder-dev/larder/internal/cli/clitest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"larder": larder, "kubectl-larder": larder})
}

// wronglySaid is the exit code of a command that names a flag which it lacks.
const wronglySaid = 99

// larder runs the command, and checks what it says on standard error.
func larder() {
	var said bytes.Buffer
	cmd, code := cli.MainForTests(io.MultiWriter(os.Stderr, &said))
	if lacks := clitest.Lacking(cmd, said.String()); len(lacks) > 0 {
		fmt.Fprintf(os.Stderr, "test: %s has no %q\n", cmd.CommandPath(), lacks)
		code = wronglySaid
	}
	os.Exit(code)
}
