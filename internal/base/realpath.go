// Package realpath resolves the symbolic links of a path once, so that later operations on the file or beside it do not
// affect a link to the file. Start with [RealPath].
package base

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// maxLinks is the maximum number of dangling links to follow, as in Linux.
const maxLinks = 40

// RealPath returns the absolute path of the file that path names, with all symbolic links resolved. The file need not
// exist, but its directory must: for a link to a missing file, RealPath returns the path at which the file would be
// created. It fails if links form a cycle. If a directory is missing, the error wraps fs.ErrNotExist.
func RealPath(path string) (string, error) {
	at := path
	if !filepath.IsAbs(at) {
		wd, err := os.Getwd()
		if err != nil {
			return "", err
		}
		// filepath.Join would clean the path, and so remove a link together with a ".." after it.
		at = wd + string(filepath.Separator) + at
	}
	for range maxLinks {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			return real, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("follow the symbolic links of %s: %w", path, err)
		}
		next, isLink, err := step(at)
		if err != nil {
			return "", fmt.Errorf("%s: there is no directory %s: %w", path, filepath.Dir(at), err)
		}
		if !isLink {
			return next, nil
		}
		at = next
	}
	return "", fmt.Errorf("follow the symbolic links of %s: there are more than %d", path, maxLinks)
}

// step makes one step in resolving the path of a missing file: it resolves the file's directory, and follows the last
// element if that is a link.
func step(path string) (next string, isLink bool, err error) {
	dir, base := filepath.Split(path)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", false, err
	}
	next = filepath.Join(dir, base)
	target, err := os.Readlink(next)
	switch {
	case err != nil:
		return next, false, nil //nolint:nilerr // the error says only that next is not a link
	case filepath.IsAbs(target):
		return target, true, nil
	}
	return dir + string(filepath.Separator) + target, true, nil
}
