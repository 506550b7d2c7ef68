package main

import (
	"path/filepath"
	"testing"
)

// TestWalks holds the lists of docs/architecture.md against the code: each function is in the file that the row names,
// takes the locks that it names and no others, and is reached as it says.
func TestWalks(t *testing.T) {
	root, walks := pageOf(t)
	c, err := readCode(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(walks) != 3 {
		t.Fatalf("the page has %d lists, not those of an event to its handler and to the file, and of a restart", len(walks))
	}
	for _, w := range walks {
		for _, fault := range c.faults(w) {
			t.Error(fault)
		}
	}
}

func pageOf(t *testing.T) (root string, walks []*Walk) {
	t.Helper()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	walks, err = readWalks(filepath.Join(root, architecture))
	if err != nil {
		t.Fatal(err)
	}
	return root, walks
}
