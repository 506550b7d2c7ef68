package main

import (
	"runtime"
	"testing"
)

// TestProgram checks that the release build of the command succeeds and stays within maxProgram.
func TestProgram(t *testing.T) {
	if _, err := buildProgram(t.TempDir(), runtime.GOOS+"/"+runtime.GOARCH); err != nil {
		t.Fatal(err)
	}
}
