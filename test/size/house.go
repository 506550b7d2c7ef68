package main

import (
	"fmt"
	"slices"
	"strings"
)

// captions describe the rooms of the picture: a top-level directory is a room, with the packages below it.
var captions = map[string]string{
	"cmd/larder": "the command line",
	"serve":      "a read-only Kubernetes API\nover a store or a snapshot",
	"snapshot":   "portable files: save, read, compare, restore",
	"metrics":    "Prometheus metrics",
	"informer":   "cache.SharedIndexInformer:\nhandlers, status, the process loop",
	"reflector":  "lists and watches;\nknows no store",
	"fifo":       "the ordered, bounded queue",
	"store":      "one bbolt file: objects, indexes and\nresourceVersion in one transaction",
	"codec":      "objects to bytes and back",
	"entry":      "identities, references, entries, errors",
	"seed":       "a first state from elsewhere",
}

// drawn reports whether the picture contains a package: the command, or a package of the library, including the
// library's internal packages.
func (p *goPackage) drawn() bool { return p.dir == "cmd/larder" || p.library() && p.name != "main" }

// room returns the room in which a package is drawn.
func room(dir string) string {
	if first, _, below := strings.Cut(dir, "/"); below && first != "cmd" {
		return first
	}
	return dir
}

// label returns the text of a room: its name and caption, the packages below it, and its internal packages.
func label(name string, packages []*goPackage) string {
	var public, internal []string
	for _, p := range packages {
		below, ok := strings.CutPrefix(p.dir, name+"/")
		switch inside, is := strings.CutPrefix(below, "internal/"); {
		case !ok || !p.drawn() || strings.HasSuffix(below, "test"):
		case is:
			internal = append(internal, inside)
		case !strings.Contains(below, "internal/"):
			public = append(public, below)
		}
	}
	text := name + "\n" + captions[name]
	if len(public) > 0 {
		text += "\n\n" + wrap(public)
	}
	if len(internal) > 0 {
		text += "\n\ninternal: " + wrap(internal)
	}
	return text
}

// wrap returns the names in lines of about 40 characters.
func wrap(names []string) string {
	text, line := "", 0
	for i, name := range names {
		switch {
		case i == 0:
		case line+len(name) > 40:
			text, line = text+",\n", 0
		default:
			text += ", "
		}
		text, line = text+name, line+len(name)+2
	}
	return text
}

// drawHouse returns the rooms and their imports as text for d2, a drawing program. A package that is not drawn passes
// its imports on to its importers. An import that follows from other imports is not drawn.
func drawHouse(packages []*goPackage) string {
	byDir := map[string]*goPackage{}
	for _, p := range packages {
		byDir[p.dir] = p
	}
	var rooms []string
	all := map[string][]string{}
	for _, p := range packages {
		if !p.drawn() {
			continue
		}
		from := room(p.dir)
		rooms = append(rooms, from)
		for _, dir := range drawnImports(p, byDir, map[string]bool{}) {
			if to := room(dir); to != from && !slices.Contains(all[from], to) {
				all[from] = append(all[from], to)
			}
		}
		slices.Sort(all[from])
	}
	slices.Sort(rooms)
	rooms = slices.Compact(rooms)
	var b strings.Builder
	b.WriteString("# Made by `make pictures` from the imports; see test/size/house.go.\ndirection: down\n")
	for _, name := range rooms {
		fmt.Fprintf(&b, "%q: %q\n", name, label(name, packages))
	}
	for _, from := range rooms {
		for _, to := range all[from] {
			if !slices.ContainsFunc(all[from], func(other string) bool { return other != to && leadsTo(all, other, to) }) {
				fmt.Fprintf(&b, "%q -> %q\n", from, to)
			}
		}
	}
	return b.String()
}

// drawnImports returns the drawn packages that p imports, directly or through undrawn ones.
func drawnImports(p *goPackage, byDir map[string]*goPackage, seen map[string]bool) []string {
	var dirs []string
	for _, dir := range p.imports {
		to := byDir[dir]
		if to == nil || seen[dir] {
			continue
		}
		seen[dir] = true
		if to.drawn() {
			dirs = append(dirs, dir)
		} else {
			dirs = append(dirs, drawnImports(to, byDir, seen)...)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func leadsTo(imports map[string][]string, from, to string) bool {
	return slices.ContainsFunc(imports[from], func(next string) bool { return next == to || leadsTo(imports, next, to) })
}
