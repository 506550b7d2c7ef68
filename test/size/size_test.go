package main

import (
	"crypto/sha1"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestSize(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("store/a.go", `// Package store is counted, comments included.
package store

import "github.com/larder-dev/larder/codec"

const One, two = 1, 2

type T struct {
	A, b int
	codec.Codec
}

func (t *T) M()       {}
func (t T) n()        {}
func (g *g[X]) Hidden() {}

type g[X any] struct{ x X }

type I interface {
	Do()
	codec.Codec
}

func F() {}
`)
	write("store/a_test.go", "package store\n\nfunc Test() {}\n")
	write("store/testdata/b.go", "package b\n")
	write("codec/c.go", "package codec\n\ntype Codec interface{}\n")
	write("internal/fake/f.go", "package fake\n\nimport _ \"github.com/larder-dev/larder/internal/below\"\n")
	write("internal/below/b.go", "package below\n")
	packages, err := readPackages(root)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(packages, func(p *goPackage) bool { return p.dir == "store" })
	if len(packages) != 4 || at < 0 {
		t.Fatalf("packages: %v", packages)
	}
	for _, p := range packages {
		if p.forTests != p.inside() {
			t.Errorf("%s: only tests import it: %t", p.dir, p.forTests)
		}
	}
	p := packages[at]
	slices.SortFunc(p.types, func(a, b goType) int { return strings.Compare(a.name, b.name) })
	got := fmt.Sprintf("%d lines, %d files, %d exported, %d members, %v, %v",
		p.lines, len(p.files), p.exported, p.members, p.imports, p.types)
	want := "24 lines, 1 files, 4 exported, 3 members, [codec], [{store.I 2 0} {store.T 2 3} {store.g 1 1}]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := limited(4001, maxPackage)+limited(4000, maxPackage), "4001 ?4000"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if house := drawHouse(packages); !strings.Contains(house, "\"store\" -> \"codec\"\n") {
		t.Errorf("there is no arrow from store to codec:\n%s", house)
	}
}

var inPicture = regexp.MustCompile(`\b(?:codec|fifo|informer|reflector|store)\.[A-Za-z.]+\b`)

// TestPictures checks that the picture of the packages shows the current imports, that the other pictures name existing
// types and functions, and that each SVG is rendered from its text.
func TestPictures(t *testing.T) {
	root, _ := pageOf(t)
	packages, err := readPackages(root)
	if err != nil {
		t.Fatal(err)
	}
	c, err := readCode(root)
	if err != nil {
		t.Fatal(err)
	}
	there := func(name string) bool {
		isType := func(of goType) bool { return of.name == name }
		return c.funcs[name] != nil ||
			slices.ContainsFunc(packages, func(p *goPackage) bool { return slices.ContainsFunc(p.types, isType) })
	}
	for _, name := range []string{"house", "event", "restart"} {
		file := filepath.Join(root, "docs", "img", "architecture-"+name)
		text, err := os.ReadFile(file + ".d2")
		if err != nil {
			t.Fatal(err)
		}
		if name == "house" && string(text) != drawHouse(packages) {
			t.Error("packages or their imports have changed, and docs/img/architecture-house.d2 has not: run make pictures")
		}
		for _, named := range inPicture.FindAllString(string(text), -1) {
			if !there(named) {
				t.Errorf("docs/img/architecture-%s.d2: there is no %s any more: change it, and run make pictures", name, named)
			}
		}
		picture, err := os.ReadFile(file + ".svg")
		if err != nil {
			t.Fatal(err)
		}
		if made := fmt.Sprintf("made from %x", gitHash(text)); !strings.Contains(string(picture), made) {
			t.Errorf("docs/img/architecture-%s.svg is not made from the .d2 beside it: run make pictures", name)
		}
	}
}

func gitHash(text []byte) [sha1.Size]byte {
	return sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(text)), text...))
}
