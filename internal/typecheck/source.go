package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"sync"
)

// sources has the files of all packages. Each is read and parsed once, for every module and platform that has it.
type sources struct {
	positions *token.FileSet
	mu        sync.Mutex
	files     map[string]*source // by name, guarded by mu
}

// source is a file of Go.
type source struct {
	name string // without its directory
	sum  func() ([sha256.Size]byte, error)
	tree func() (*ast.File, error)
}

func newSources() *sources {
	return &sources{positions: token.NewFileSet(), files: map[string]*source{}}
}

// of returns the files of a package.
func (s *sources) of(l listed) (files []*source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range l.GoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(l.Dir, name)
		}
		if s.files[name] == nil {
			s.files[name] = s.file(name)
		}
		files = append(files, s.files[name])
	}
	return files
}

func (s *sources) file(name string) *source {
	sum := sync.OnceValues(func() (sum [sha256.Size]byte, err error) {
		text, err := os.ReadFile(name)
		return sha256.Sum256(text), err
	})
	return &source{
		name: filepath.Base(name),
		sum:  sum,
		tree: sync.OnceValues(func() (*ast.File, error) {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			if was, err := sum(); err != nil || sha256.Sum256(text) != was { // what is right would be recorded of what was there before
				return nil, errors.Join(err, fmt.Errorf("%s was changed while it was checked: run this again", name))
			}
			return parser.ParseFile(s.positions, name, text, parser.SkipObjectResolution)
		}),
	}
}
