//go:build amd64 || arm64

package powerloss_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childMode is the environment variable that turns the test binary into a traced process. Its value is the process's
// job, and the first argument is the process's directory.
const childMode = "LARDER_POWERLOSS_CHILD"

var children = map[string]func(dir string) error{
	"files": childFiles, "death": childDeath, "store": childStore, "kill-commit": childKilledInCommit,
	"kill-compaction": childKilledInCompaction, "resume": childResumed,
}

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		if err := children[mode](os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func childEnv(mode string) []string {
	return append(os.Environ(), childMode+"="+mode, "GORACE=atexit_sleep_ms=0")
}
