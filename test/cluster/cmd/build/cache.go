package main

import (
	"fmt"
	"os"
	"path/filepath"
)

var programNames = []string{"etcd", "kube-apiserver", "kubectl"}

func cacheRoot(base string) string { return filepath.Join(base, "larder", "cluster") }

// cache is one cache entry: a directory that gets its name only when it is complete.
type cache struct {
	root string
	name string
}

func (c cache) dir() string { return filepath.Join(c.root, c.name) }

func (c cache) complete() bool {
	for _, name := range programNames {
		if fi, err := os.Stat(filepath.Join(c.dir(), name)); err != nil || !fi.Mode().IsRegular() {
			return false
		}
	}
	return true
}

func (c cache) fill(build func(tmp string) error) error {
	tmp, err := os.MkdirTemp(c.root, "tmp-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := build(tmp); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(c.dir()); err != nil { // removes an entry that lacks a file
		return err
	}
	if err := os.Rename(tmp, c.dir()); err != nil && !c.complete() {
		return fmt.Errorf("moving the built programs into place: %w", err)
	}
	return nil
}
