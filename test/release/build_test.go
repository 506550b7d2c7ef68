package main

import (
	"runtime"
	"testing"
)

func TestProgram(t *testing.T) {
	if _, err := buildProgram(t.TempDir(), runtime.GOOS+"/"+runtime.GOARCH); err != nil {
		t.Fatal(err)
	}
}
