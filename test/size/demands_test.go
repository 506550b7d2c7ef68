package main

import (
	"slices"
	"strings"
	"testing"
)

// TestKinds checks that each name in demands.go exists, and that objectTypes or notObjects has each type that looks
// like an object.
func TestKinds(t *testing.T) {
	root, _ := pageOf(t)
	packages, err := readPackages(root)
	if err != nil {
		t.Fatal(err)
	}
	names := slices.Clone(notObjects)
	for _, k := range kinds {
		names = append(names, k.names...)
	}
	for _, name := range names {
		if !declared(packages, name) {
			t.Errorf("there is no %s any more: take it out of the lists of demands.go", name)
		}
	}
	for _, p := range packages {
		for _, name := range p.looksLikeObject {
			if p.reached && !slices.Contains(objectTypes, name) && !slices.Contains(notObjects, name) {
				t.Errorf("%s has a key and a content: add it to objectTypes or notObjects in demands.go", name)
			}
		}
	}
}

func declared(packages []*goPackage, name string) bool {
	return slices.ContainsFunc(packages, func(p *goPackage) bool {
		below, found := strings.CutPrefix(name, p.dir+".")
		return found && slices.Contains(p.declared, below)
	})
}

func TestMoves(t *testing.T) {
	w := &Walk{}
	for _, file := range []string{"a/1.go", "a/2.go", "b/1.go", "a/1.go", "a/b/1.go", "b/1.go", "b/2.go"} {
		w.Steps = append(w.Steps, Step{File: file})
	}
	if moves, returns := w.moves(); moves != 4 || returns != 2 {
		t.Errorf("%d moves, %d of them returns; want 4 and 2", moves, returns)
	}
}
