package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/larder-dev/larder/internal/cli"
)

func TestMain(m *testing.M) {
	larder := func() { os.Exit(cli.MainForTests()) }
	testscript.Main(m, map[string]func(){"larder": larder, "kubectl-larder": larder})
}
