package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/types"
	"runtime"
	"slices"
	"sync"
)

// checked is a package that is being checked.
type checked struct {
	listed
	identity string
	files    []*source
	imports  map[string]*checked // by ImportPath
	reached  bool                // of one of the modules, or imported by such
	started  bool
	done     chan struct{}  // closed when the rest is there
	types    *types.Package // nil if the package could not be read
	problems []string
}

// checker checks the packages of several modules for one platform.
type checker struct {
	*sources
	on      platform
	program string // its identity
	right   map[string]bool
	sizes   types.Sizes

	packages map[string]*checked // by identity: what several modules import is checked once
	order    []*checked          // each after those that it imports
	places   chan struct{}       // bounds how many are checked at a time
	running  sync.WaitGroup
}

// newChecker returns a checker without packages. Those with an identity in right are taken to be right.
func newChecker(s *sources, on platform, program string, right map[string]bool) (*checker, error) {
	c := &checker{
		sources: s, on: on, program: program, right: right, sizes: types.SizesFor("gc", on.goarch),
		packages: map[string]*checked{}, places: make(chan struct{}, runtime.GOMAXPROCS(0)),
	}
	if c.sizes == nil {
		return nil, fmt.Errorf("no such architecture: %q", on.goarch)
	}
	return c, nil
}

// add adds the packages of a module, of each those that it imports first.
func (c *checker) add(module []listed) error {
	own, byPath := 0, map[string]*checked{}
	for _, l := range module {
		p, err := c.one(l, byPath)
		if err != nil {
			return err
		}
		byPath[l.ImportPath] = p
		if !l.DepOnly {
			own++
			p.reach()
		}
	}
	if own == 0 {
		return errors.New("it has no packages")
	}
	return nil
}

// one returns the package of that description; byPath has the others of its module.
func (c *checker) one(l listed, byPath map[string]*checked) (*checked, error) {
	files := c.of(l)
	id, err := identity(c.program, c.on, l, files, byPath)
	if err != nil {
		return nil, err
	}
	if c.packages[id] == nil {
		p := &checked{listed: l, identity: id, files: files, imports: map[string]*checked{}, done: make(chan struct{})}
		for _, path := range l.Imports {
			if dep := byPath[path]; dep != nil {
				p.imports[path] = dep
			}
		}
		c.packages[id] = p
		c.order = append(c.order, p)
	}
	return c.packages[id], nil
}

// reach marks a package and all that it imports. What only the generated main packages of tests import is not checked.
func (p *checked) reach() {
	if p.reached {
		return
	}
	p.reached = true
	for _, dep := range p.imports {
		dep.reach()
	}
}

// check returns what is wrong with the packages, in their order, and the identities of all.
func (c *checker) check() (problems, identities []string) {
	for _, p := range c.order {
		if p.reached && !c.right[p.identity] {
			c.start(p)
		}
	}
	c.running.Wait()
	seen := map[string]bool{}
	for _, p := range c.order {
		if p.reached {
			identities = append(identities, p.identity)
		}
		for _, problem := range p.problems {
			if !seen[problem] { // what is wrong with a package is wrong with it and its tests too
				seen[problem] = true
				problems = append(problems, problem)
			}
		}
	}
	return problems, identities
}

// start starts the check of a package and of all that it imports, unless it has been started.
func (c *checker) start(p *checked) {
	if p.started {
		return
	}
	p.started = true
	for _, dep := range p.imports {
		c.start(dep)
	}
	c.running.Go(func() {
		defer close(p.done)
		c.checkOne(p)
	})
}

// checkOne waits for what p imports, and checks it.
func (c *checker) checkOne(p *checked) {
	for _, dep := range p.imports {
		<-dep.done
	}
	c.places <- struct{}{}
	defer func() { <-c.places }()
	note := func(err error) { p.problems = append(p.problems, err.Error()) }
	if p.ImportPath == "unsafe" {
		p.types = types.Unsafe
		return
	}
	var trees []*ast.File
	for _, f := range p.files {
		tree, err := f.tree()
		if err != nil {
			note(err)
			return
		}
		trees = append(trees, tree)
	}
	config := types.Config{
		Sizes: c.sizes, Importer: importer{p}, Error: note, GoVersion: p.goVersion(),
		IgnoreFuncBodies: c.right[p.identity],
	}
	p.types, _ = config.Check(p.path(), c.positions, trees, nil) // note has every error
}

// importer finds what a package imports among what has been checked.
type importer struct{ by *checked }

// Import is types.Importer's.
func (i importer) Import(path string) (*types.Package, error) {
	if to := i.by.ImportMap[path]; to != "" {
		path = to
	}
	if !slices.Contains(i.by.Imports, path) {
		return nil, fmt.Errorf("go list does not know that %s imports %s", i.by.ImportPath, path)
	}
	if dep := i.by.imports[path]; dep != nil && dep.types != nil {
		return dep.types, nil
	}
	return nil, fmt.Errorf("%s could not be read", path)
}
