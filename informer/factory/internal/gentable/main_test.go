package main

import (
	"bytes"
	"os"
	"testing"
)

// TestUpToDate: the file in the package is what client-go's present version makes of it.
func TestUpToDate(t *testing.T) {
	want, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../resources_generated.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("resources_generated.go does not fit client-go; run go generate ./informer/factory")
	}
}
