package remote

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// Handler serves the repository in a directory, and no other files, for GET and HEAD. Its URL is the repository's URL.
func Handler(dir string) http.Handler { return handler(dir) }

type handler string

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name != latestFile && !isName(name) {
		http.NotFound(w, r)
		return
	}
	f, err := os.Open(filepath.Join(string(h), name))
	if errors.Is(err, fs.ErrNotExist) {
		http.NotFound(w, r)
		return
	}
	if err != nil {
		http.Error(w, "the snapshot cannot be read", http.StatusInternalServerError)
		return
	}
	defer func() { _ = f.Close() }() // the file was opened for reading, so an error of Close does not matter
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		http.Error(w, "the snapshot cannot be read", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Cache-Control", CacheControl(name)+", private")
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", info.ModTime(), f)
}

// Directory returns the directory of a repository on the local disk.
func (r *Repository) Directory() (string, bool) {
	d, ok := r.at.files.(directory)
	return string(d), ok
}
