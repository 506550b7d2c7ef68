package store_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/larder-dev/larder/store"
)

// childMode is the environment variable that selects the function of a child process of a test.
const childMode = "LARDER_STORE_TEST_CHILD"

func child() int {
	var err error
	switch mode := os.Getenv(childMode); mode {
	case "file-size-limit":
		err = childFileSizeLimit(os.Args[1])
	case "address-space-limit":
		err = childAddressSpaceLimit(os.Args[1])
	case "crash":
		fmt.Println("begun")
		err = childCrash(os.Args[1])
	case "compact":
		err = childCompact(os.Args[1])
	case "import":
		fmt.Println("begun")
		err = childImport(os.Args[1])
	case "rekey":
		err = childRekey(os.Args[1])
	case "drop":
		err = childDrop(os.Args[1])
	case "die-in-open":
		err = childDieInOpen(os.Args[1])
	case "hold":
		err = childHold(os.Args[1])
	default:
		err = fmt.Errorf("unknown child mode %q", mode)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func childHold(path string) error {
	s, err := store.Open(path, store.Options{})
	if err != nil {
		return err
	}
	fmt.Println("open")
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, s.Close())
}

func runChild(t *testing.T, mode string, args ...string) {
	t.Helper()
	cmd := childCommand(mode, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("child %s: %v\n%s", mode, err, out)
	}
}

func childCommand(mode string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	// By default the race detector makes each process sleep for a second before it exits.
	cmd.Env = append(os.Environ(), childMode+"="+mode, "GORACE=atexit_sleep_ms=0")
	return cmd
}
