package main

import (
	"fmt"
	"slices"
	"strings"
)

// captions describe packages in the picture. A package without a caption is drawn with its path only.
var captions = map[string]string{
	"cmd/larder":                 "the command line",
	"snapshot":                   "portable files:\nsave, read, restore",
	"snapshot/diff":              "compares two sources",
	"snapshot/internal/layout":   "every byte in a file",
	"metrics":                    "Prometheus metrics",
	"informer":                   "cache.SharedIndexInformer:\nhandlers, status, the loop",
	"informer/factory":           "client-go's factories",
	"informer/controllerruntime": "NewCache; a module of its own",
	"informer/audit":             "compares with the server",
	"informer/durable":           "handlers that keep their place",
	"informer/mapper":            "discovery in the file",
	"reflector":                  "lists and watches",
	"fifo":                       "the ordered, bounded queue",
	"store":                      "one bbolt file: objects, indexes\nand resourceVersion in one transaction",
	"store/internal/boltfile":    "one bbolt file",
	"store/internal/changelog":   "an index by sequence number,\nand the cursors of its consumers",
	"store/internal/check":       "verifies a file",
	"store/internal/copier":      "copies a file: compact,\nrekey, rebuild",
	"store/internal/engine":      "memtables, commits, indexes:\nthe collections of a file",
	"store/internal/crypt":       "compresses and seals records,\nand decodes them",
	"store/internal/format":      "every byte on disk",
	"store/consumer":             "what consumers of\na changelog are given",
	"store/indexer":              "a collection as\na cache.Indexer",
	"store/memory":               "a collection without a file",
	"store/query":                "selects by namespace,\nlabels, fields",
	"store/seal":                 "keys that wrap data keys",
	"serve/access":               "who asks, and whether they may",
	"serve/access/kubeconfig":    "what a client needs to get in",
	"serve/access/listener":      "TLS and connections of the port",
	"serve/page":                 "a page for people",
	"codec":                      "objects to bytes and back",
	"entry":                      "identities, references,\nentries, errors",
	"seed":                       "a first state from elsewhere",
}

// drawn reports whether the picture contains a package: the command, or a package of the library, including the
// library's internal packages.
func (p *goPackage) drawn() bool { return p.dir == "cmd/larder" || p.library() && p.name != "main" }

// drawHouse returns the packages and their imports as text for d2, a drawing program. A package that is not drawn
// passes its imports on to its importers. An import that follows from other imports is not drawn.
func drawHouse(packages []*goPackage) string {
	byDir := map[string]*goPackage{}
	for _, p := range packages {
		byDir[p.dir] = p
	}
	all := map[string][]string{}
	for _, p := range packages {
		if p.drawn() {
			all[p.dir] = drawnImports(p, byDir, map[string]bool{})
		}
	}
	var b strings.Builder
	b.WriteString("# Made by `make pictures` from the imports; see test/size/house.go.\ndirection: down\n")
	for _, p := range packages {
		if p.drawn() {
			label := p.dir
			if what := captions[p.dir]; what != "" {
				label += "\n" + what
			}
			fmt.Fprintf(&b, "%q: %q\n", p.dir, label)
		}
	}
	for _, p := range packages {
		for _, to := range all[p.dir] {
			if !slices.ContainsFunc(all[p.dir], func(other string) bool { return other != to && leadsTo(all, other, to) }) {
				fmt.Fprintf(&b, "%q -> %q\n", p.dir, to)
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
