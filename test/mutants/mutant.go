package main

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one fault.
type mutant struct {
	// name is the package and what is wrong, such as "fifo/unbounded".
	name string
	// breaks is the promise that does not hold with it, in a sentence.
	breaks string
	// file has the fault, relative to the root of the repository.
	file string
	// old is in the file exactly once, and new takes its place.
	old, new string
	// test fails because of it. It is a top-level test of the package in test's directory.
	test string
	// dir of the test's package; "" is that of file.
	dir string
}

// all returns the mutants of every package.
func all() []mutant {
	return slices.Concat(
		auditMutants,
		cliMutants,
		durableMutants,
		factsMutants,
		fifoMutants,
		informerMutants,
		attachMutants,
		namesMutants,
		connectionMutants,
		powerLossMutants,
		seedMutants,
		reflectorMutants,
		wireMutants, wireAnswerMutants, wireProtobufMutants,
		reflectorResumeMutants,
		serveMutants, serveForwardMutants, serveSocketMutants,
		serveAccessMutants,
		serveHostileMutants,
		snapshotMutants,
		storeCommitMutants,

		storeDiskMutants, storeOpenMutants,
		storeFileMutants,
		storeHistoryMutants,
		storeListMutants, informerListMutants,
	)
}

// testDir is the directory of the package whose test must catch m.
func (m mutant) testDir() string {
	if m.dir != "" {
		return m.dir
	}
	return filepath.Dir(m.file)
}

// apply returns the file with the fault. It fails if the old text is gone, or if the result does not parse.
func (m mutant) apply(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return nil, fmt.Errorf("%s has the old text %d times, and must have it once", m.file, n)
	}
	if m.old == m.new {
		return nil, errors.New("old and new text are the same")
	}
	changed := strings.Replace(string(text), m.old, m.new, 1)
	if _, err := parser.ParseFile(token.NewFileSet(), m.file, changed, parser.SkipObjectResolution); err != nil {
		return nil, fmt.Errorf("with the new text %s is not valid Go: %w", m.file, err)
	}
	return []byte(changed), nil
}

// module returns the directory with the go.mod that dir belongs to, and dir relative to it; both are below root.
func module(root, dir string) (mod, pkg string) {
	for mod = dir; mod != "."; mod = filepath.Dir(mod) {
		if _, err := os.Stat(filepath.Join(root, mod, "go.mod")); err == nil {
			break
		}
	}
	pkg, err := filepath.Rel(mod, dir)
	if err != nil {
		return ".", "./" + dir
	}
	return mod, "./" + pkg
}
