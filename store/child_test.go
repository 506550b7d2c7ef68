package store

import (
	"fmt"
	"os"
)

// childMode is the environment variable that makes the test binary a child
// process of a test: its value is what to do.
const childMode = "LARDER_STORE_TEST_CHILD"

// child is what a child process does, and its exit status.
func child() int {
	var err error
	switch mode := os.Getenv(childMode); mode {
	case "file-size-limit":
		err = childFileSizeLimit(os.Args[1])
	default:
		err = fmt.Errorf("unknown child mode %q", mode)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
