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
	fmt.Fprintln(os.Stderr, "unknown child mode", os.Getenv(childMode))
	return 2
}
