// Package realpath follows the symbolic links of a path once, so that what is done beside the file or to its name is
// done to the file and never to a link that leads to it. Start with [Of].
package realpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// maxLinks is how many links that lead to no file yet are followed, as many as Linux follows.
const maxLinks = 40

// Of returns the absolute path of the file that path names, with all symbolic links followed. The file need not be
// there, its directory must be: of a link that leads to no file, Of returns where the file would be made. It fails if
// links lead in a circle, and with an error that wraps fs.ErrNotExist if a directory is missing.
func Of(path string) (string, error) {
	at := path
	if !filepath.IsAbs(at) {
		wd, err := os.Getwd()
		if err != nil {
			return "", err
		}
		at = wd + string(filepath.Separator) + at // not cleaned: what ".." means behind a link is for the links to say
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

// step resolves the directory of a path that leads to no file, and follows its last element if that is a link.
func step(path string) (next string, isLink bool, err error) {
	dir, base := filepath.Split(path)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", false, err
	}
	next = filepath.Join(dir, base)
	target, err := os.Readlink(next)
	switch {
	case err != nil: // there is nothing of that name
		return next, false, nil //nolint:nilerr // see above
	case filepath.IsAbs(target):
		return target, true, nil
	}
	return dir + string(filepath.Separator) + target, true, nil
}
