package main

import (
	"runtime"
	"testing"
)

// TestProgram: the command is built as a release has it, and is no larger than it may be.
func TestProgram(t *testing.T) {
	if _, err := buildProgram(t.TempDir(), runtime.GOOS+"/"+runtime.GOARCH); err != nil {
		t.Fatal(err)
	}
}
