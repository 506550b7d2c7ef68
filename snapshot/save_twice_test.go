package snapshot

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// Two saves to one path at a time do not disturb each other: each has a file of its own, and the one that ends last stays. What a process that was killed has left goes away all the same.
func TestTwoSavesToOnePath(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.larder")
	dead := path + suffixNew + "DEAD"
	if err := os.WriteFile(dead, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	begun, goOn, first := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := saveAt(path, func(w io.Writer, _ string) (Saved, error) {
			close(begun)
			<-goOn
			_, err := io.WriteString(w, "first")
			return Saved{}, err
		})
		first <- err
	}()
	<-begun
	if _, err := os.Stat(dead); err == nil {
		t.Error("what a killed save has left is there")
	}
	if _, err := saveAt(path, func(w io.Writer, _ string) (Saved, error) {
		_, err := io.WriteString(w, "second")
		return Saved{}, err
	}); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "second" {
		t.Errorf("%q, %v", text, err)
	}
	if n := debris(t, dir); n != 1 {
		t.Errorf("%d files are being made, want that of the first save", n)
	}
	close(goOn)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "first" {
		t.Errorf("%q, %v", text, err)
	}
	wantNames(t, dir, "a.larder")
}

// Many at a time: all of them succeed, and one whole snapshot is left.
func TestManySavesToOnePath(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.larder")
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for range 20 {
				_, err := SaveServer(t.Context(), nil, path, SaveOptions{})
				errs[i] = errors.Join(errs[i], err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil && runtime.GOOS != "windows" { // where what is being renamed can not be replaced
		t.Error(err)
	}
	f := mustOpenFile(t, path, OpenOptions{})
	if n := len(f.Manifest().Collections); n != 0 {
		t.Errorf("%d collections", n)
	}
	wantNames(t, dir, "a.larder")
}
