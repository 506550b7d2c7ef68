package main

import (
	"path/filepath"
	"slices"
	"testing"
)

// TestWalks checks the function lists of docs/architecture.md against the code: file, locks and predecessor of each
// function.
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
	if !t.Failed() {
		t.Run("faults", func(t *testing.T) { breakSteps(t, c, walks[0]) })
	}
}

// breakSteps puts each kind of fault into each row of a function list, and checks that the fault is found.
func breakSteps(t *testing.T, c *code, w *Walk) {
	for what, spoil := range map[string]func(s *Step) bool{
		"a function that is gone": func(s *Step) bool { s.Function += "Gone"; return true },
		"another file":            func(s *Step) bool { s.File = "doc.go"; return true },
		"a lock too many": func(s *Step) bool {
			s.Locks = append(slices.Clone(s.Locks),
				"fifo.Queue.other")
			return true
		},
		"a lock too few": func(s *Step) bool { n := len(s.Locks); s.Locks = nil; return n > 0 },
		"reached by another one": func(s *Step) bool {
			was := s.From
			s.From = "fifo.Queue.Len"
			return was != "" &&
				s.Via == ""
		},
		"through another field": func(s *Step) bool {
			was := s.Via
			s.Via = "fifo.Queue.out"
			return was != "" &&
				!passesOut(s)
		},
		"calls another one": func(s *Step) bool { was := s.Returns; s.From = "fifo.Queue.Len"; return was },
	} {
		tried := 0
		for _, step := range w.Steps {
			if !spoil(&step) {
				continue
			}
			tried++
			if c.fault(step) == "" {
				t.Errorf("%s is not found: %+v", what, step)
			}
		}
		if tried == 0 {
			t.Errorf("%s was not tried", what)
		}
	}
}

// passesOut reports whether a step's function touches fifo.Queue.out. The fault "through another field" puts that field
// into a row, where it must be wrong, so the fault does not apply to these steps.
func passesOut(s *Step) bool { return s.From == "fifo.Queue.Push" || s.From == "informer.sink.Event" }

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
