package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
)

// checked is a package that is being checked.
type checked struct {
	listed
	started  bool
	done     chan struct{}  // closed when the rest is there
	types    *types.Package // nil if the package could not be read
	problems []string
}

// checker checks the packages for one platform.
type checker struct {
	files    *token.FileSet
	sizes    types.Sizes
	packages map[string]*checked // by ImportPath
	places   chan struct{}       // bounds how many are checked at a time
	running  sync.WaitGroup
}

// check returns what is wrong with the packages, in their order. Of each, those that it imports come first.
func check(packages []listed, goarch string) (problems []string, err error) {
	c := checker{
		files: token.NewFileSet(), sizes: types.SizesFor("gc", goarch),
		packages: map[string]*checked{}, places: make(chan struct{}, runtime.GOMAXPROCS(0)),
	}
	if c.sizes == nil {
		return nil, fmt.Errorf("no such architecture: %q", goarch)
	}
	for _, l := range packages {
		c.packages[l.ImportPath] = &checked{listed: l, done: make(chan struct{})}
	}
	own := 0
	for _, l := range packages {
		if !l.DepOnly {
			own++
			c.start(l.ImportPath)
		}
	}
	c.running.Wait()
	if own == 0 {
		return nil, errors.New("it has no packages")
	}
	seen := map[string]bool{}
	for _, l := range packages {
		for _, problem := range c.packages[l.ImportPath].problems {
			if !seen[problem] { // what is wrong with a package is wrong with it and its tests too
				seen[problem] = true
				problems = append(problems, problem)
			}
		}
	}
	return problems, nil
}

// start starts the check of a package and of all that it imports, unless it has been started. What only the generated main packages of
// tests import is not checked.
func (c *checker) start(path string) {
	p := c.packages[path]
	if p == nil || p.started {
		return
	}
	p.started = true
	for _, dep := range p.Imports {
		c.start(dep)
	}
	c.running.Go(func() {
		defer close(p.done)
		c.check(p)
	})
}

// check waits for what p imports, and checks it.
func (c *checker) check(p *checked) {
	for _, path := range p.Imports {
		if dep := c.packages[path]; dep != nil {
			<-dep.done
		}
	}
	c.places <- struct{}{}
	defer func() { <-c.places }()
	note := func(err error) { p.problems = append(p.problems, err.Error()) }
	if p.ImportPath == "unsafe" {
		p.types = types.Unsafe
		return
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		file, err := parser.ParseFile(c.files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			note(err)
			return
		}
		files = append(files, file)
	}
	config := types.Config{Sizes: c.sizes, Importer: importer{c, p}, Error: note}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	p.types, _ = config.Check(p.path(), c.files, files, nil) // note has every error
}

// importer finds what a package imports among what has been checked.
type importer struct {
	*checker
	by *checked
}

// Import is types.Importer's.
func (i importer) Import(path string) (*types.Package, error) {
	if to := i.by.ImportMap[path]; to != "" {
		path = to
	}
	if !slices.Contains(i.by.Imports, path) {
		return nil, fmt.Errorf("go list does not know that %s imports %s", i.by.ImportPath, path)
	}
	if dep := i.packages[path]; dep != nil && dep.types != nil {
		return dep.types, nil
	}
	return nil, fmt.Errorf("%s could not be read", path)
}
