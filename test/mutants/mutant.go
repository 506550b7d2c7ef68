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

// mutant is a deliberate fault in Larder's code that a test must detect.
type mutant struct {
	// name is the package and the fault, for example "fifo/unbounded".
	name string
	// breaks states, in a sentence, the promise that the fault breaks.
	breaks string
	// file is relative to the root of the repository.
	file string
	// old is the text that the fault replaces by new. It must occur exactly once in the file.
	old, new string
	// test is the name of the top-level test that must fail because of the fault.
	test string
	// dir is the directory of the test's package. Default: the directory of file.
	dir string
}

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

		storeDiskMutants, storeIndexMutants, storeOpenMutants,
		storeFileMutants,
		storeHistoryMutants,
		storeListMutants, informerListMutants,
	)
}

// testDir returns the directory of the package of the test that must fail.
func (m mutant) testDir() string {
	if m.dir != "" {
		return m.dir
	}
	return filepath.Dir(m.file)
}

// apply returns the text of the file with the fault. It fails if the old text does not occur exactly once, or if the
// result does not parse.
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

// module returns the directory of the Go module that contains dir, and dir relative to that module. The argument dir
// and the first result are relative to root.
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
