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

// unknownFlag is the exit code of the test's larder if one of its messages names a flag that does not exist.
const unknownFlag = 99

// larder runs the command line, and checks that every flag in its messages on standard error exists.
func larder() {
	var stderr bytes.Buffer
	cmd, code := cli.MainForTests(io.MultiWriter(os.Stderr, &stderr))
	if unknown := clitest.UnknownFlags(cmd, stderr.String()); len(unknown) > 0 {
		fmt.Fprintf(os.Stderr, "test: %s has no %q\n", cmd.CommandPath(), unknown)
		code = unknownFlag
	}
	os.Exit(code)
}
