package main

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// The goals of the design, as maximum figures. In the output, a question mark follows a figure that misses its goal.
const (
	maxLines            = 53_000
	maxFiles            = 310
	minMeanLines        = 165
	maxImportShare      = 4.0 // percent of a file
	maxObjectTypes      = 14
	maxMethods          = 40
	maxCollectionFields = 15
	maxInformerFields   = 20
	maxEventLocks       = 9
)

// walkDemand has the goals for one function list of docs/architecture.md.
type walkDemand struct{ functions, files, moves, returns, locks int }

var walkDemands = []walkDemand{
	{functions: 45, files: 20, moves: 14, returns: 3, locks: maxEventLocks}, // an event on its way to the handler
	{functions: 30, files: 14, moves: 10, returns: 3},                       // an event on its way to the file
	{functions: 60, files: 30, moves: 20, returns: 8},                       // a restart
}

// kind is a category of declarations that should be rare, named directory.Name.
type kind struct {
	name  string
	most  int
	names []string
}

// kinds are lists that are maintained by hand. A test fails if a name no longer exists, or if objectTypes and
// notObjects lack a type that looks like a stored object.
var kinds = []kind{
	{"types that are one object or its state", maxObjectTypes, objectTypes},
	{"descriptions of a collection", 1, []string{
		"entry.Info", "store/internal/format.Info", "store/internal/engine.CollectionState",
		"informer.Status", "snapshot.Collection", "serve/page.Collection", "internal/source.Collection",
	}},
	{"pagers over records", 1, []string{
		"store/internal/engine.Reader.Page", "store/internal/engine.Reader.RawPage",
		"store/internal/engine.Reader.PageOfEntries", "store/internal/engine.Reader.IndexPage",
		"store/internal/engine.Reader.ChangesSince",
		"store/internal/engine.Reader.CountKeys", "store/internal/engine.ResidentReader.Page",
	}},
	{"posting lists", 2, []string{
		"store/internal/engine.posting", "store/internal/engine.Memtable", "store/internal/engine.IndexEntries",
	}},
}

// objectTypes are the struct types that hold an object, a part of an object, or a change of one.
var objectTypes = []string{
	"entry.Entry", "entry.ObjectRef", "entry.LeftOut", "entry.Undecoded", "entry.Op", "entry.Change",
	"fifo.Delta",
	"informer.identity",
	"informer/internal/delivery.Call",
	"reflector.answer",
	"store/consumer.Change",
	"store/history.Event",
	"store/internal/crypt.Body",
	"store/internal/changelog.Change",
	"store/internal/format.Header", "store/internal/format.Tombstone", "store/internal/format.Ref",
	"store/internal/format.LeftOut",
	"store/internal/engine.IndexedRecord",
	"store/internal/engine.item", "store/internal/engine.listed", "store/internal/engine.Pending",
	"store/internal/engine.encoded",
	"store/internal/engine.Write",
	"store/internal/engine.Record", "store/internal/engine.rawStored", "store/internal/engine.StoredRecord",
	"store/internal/engine.OldRecord",
	"store/internal/engine.rawChange",
	"store/internal/engine.ResidentObject", "store/internal/engine.row", "store/internal/engine.residentItem",
}

// notObjects are types that look like a stored object by their fields, but hold an object as another program describes
// it.
var notObjects = []string{"internal/source.Logged", "internal/source.change", "snapshot/diff.Change"}

func printDemands(w io.Writer, packages []*goPackage, walks []*Walk) {
	fmt.Fprint(w, "now\tdemanded\t\t  the house\n")
	row := func(now string, bad bool, demanded, what string) {
		if bad {
			now += " ?"
		}
		fmt.Fprintf(w, "%s\t%s\t\t  %s\n", now, demanded, what)
	}
	atMost := func(n, most int, what string) {
		row(fmt.Sprint(n), n > most, fmt.Sprint(most), what)
	}
	lines, files, imports, options, backoffs := 0, 0, 0, 0, 0
	for _, p := range packages {
		if !p.reached {
			continue
		}
		lines, files, imports = lines+p.lines, files+len(p.files), imports+p.importLines
		options, backoffs = options+p.options, backoffs+p.backoffs
	}
	atMost(lines, maxLines, "lines that an import reaches")
	atMost(files, maxFiles, "files")
	mean, share := lines/max(1, files), 100*float64(imports)/float64(max(1, lines))
	row(fmt.Sprint(mean), mean < minMeanLines, fmt.Sprint(minMeanLines), "mean lines of a file, at least")
	row(fmt.Sprintf("%.1f %%", share), share > maxImportShare, fmt.Sprintf("%.1f %%", maxImportShare),
		"lines of import declarations")
	for _, k := range kinds {
		atMost(len(k.names), k.most, k.name)
	}
	atMost(backoffs, 1, "back-offs")
	row(fmt.Sprint(options), false, "few", "types of options")
	for _, t := range []struct {
		name            string
		methods, fields int
	}{
		{"informer.Informer", maxMethods, maxInformerFields}, {"store.Collection", maxMethods, maxCollectionFields},
		{"store.Store", maxMethods, 0},
	} {
		of := typeNamed(packages, t.name)
		atMost(of.methods, t.methods, "methods of "+t.name)
		if t.fields > 0 {
			atMost(of.fields, t.fields, "fields of "+t.name)
		}
	}
	for i, walk := range walks {
		d := walkDemands[min(i, len(walkDemands)-1)]
		atMost(len(walk.functions()), d.functions, "functions on the w"+strings.TrimPrefix(walk.Name, "The w"))
		atMost(len(walk.files()), d.files, "files on it")
		moves, returns := walk.moves()
		atMost(moves, d.moves, "moves from one package to another")
		atMost(returns, d.returns, "returns to a package that was left")
		if d.locks > 0 {
			atMost(len(walk.locks()), d.locks, "locks")
		}
	}
	fmt.Fprint(w, "\t\t\t\n")
}

// moves counts how often a function list moves from one package to another, and how often it moves back to an earlier
// package.
func (w *Walk) moves() (moves, returns int) {
	var seen []string
	at := ""
	for _, s := range w.Steps {
		dir := path.Dir(s.File)
		if dir == at {
			continue
		}
		if at != "" {
			moves++
		}
		if slices.Contains(seen, dir) {
			returns++
		}
		at, seen = dir, append(seen, dir)
	}
	return moves, returns
}

func typeNamed(packages []*goPackage, name string) goType {
	for _, p := range packages {
		for _, t := range p.types {
			if t.name == name {
				return t
			}
		}
	}
	return goType{}
}
