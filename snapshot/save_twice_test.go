package snapshot_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/larder-dev/larder/snapshot"
)

// TestTwoSavesToOnePath checks that concurrent saves to one path write separate files, and that the last to end stays.
func TestTwoSavesToOnePath(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.larder")
	dead := path + suffixNew + "DEAD"
	if err := os.WriteFile(dead, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	begun, goOn, first := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		first <- snapshot.SaveAt(path, snapshot.SaveOptions{}, func(w io.Writer) error {
			close(begun)
			<-goOn
			_, err := io.WriteString(w, magic+"first")
			return err
		})
	}()
	<-begun
	if _, err := os.Stat(dead); err == nil {
		t.Error("what a killed save has left is there")
	}
	if err := snapshot.SaveAt(path, snapshot.SaveOptions{}, func(w io.Writer) error {
		_, err := io.WriteString(w, magic+"second")
		return err
	}); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != magic+"second" {
		t.Errorf("%q, %v", text, err)
	}
	if n := debris(t, dir); n != 1 {
		t.Errorf("%d files are being made, want that of the first save", n)
	}
	close(goOn)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != magic+"first" {
		t.Errorf("%q, %v", text, err)
	}
	wantNames(t, dir, "a.larder")
}

func TestManySavesToOnePath(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.larder")
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for range 20 {
				_, err := snapshot.SaveServer(t.Context(), nil, path, snapshot.SaveOptions{})
				errs[i] = errors.Join(errs[i], err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil && runtime.GOOS != "windows" {
		// Windows cannot replace a file during a rename.
		t.Error(err)
	}
	f := mustOpenFile(t, path, snapshot.OpenOptions{})
	if n := len(f.Manifest().Collections); n != 0 {
		t.Errorf("%d collections", n)
	}
	wantNames(t, dir, "a.larder")
}

func TestKeepExisting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.larder")
	write := func(text string, meanwhile func()) func(io.Writer) error {
		return func(w io.Writer) error {
			meanwhile()
			_, err := io.WriteString(w, magic+text)
			return err
		}
	}
	err := snapshot.SaveAt(path, snapshot.SaveOptions{KeepExisting: true}, write("second", func() {
		if err := snapshot.SaveAt(path, snapshot.SaveOptions{KeepExisting: true}, write("first", func() {})); err != nil {
			t.Fatal(err)
		}
	}))
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v, want %v", err, fs.ErrExist)
	}
	refused := errors.New("refused")
	if err := snapshot.SaveAt(path, snapshot.SaveOptions{Accept: func(snapshot.Saved) error { return refused }},
		write("third", func() {})); !errors.Is(err, refused) {
		t.Errorf("%v, want that it is refused", err)
	}
	if text, err := os.ReadFile(path); string(text) != magic+"first" || err != nil {
		t.Errorf("%q, %v: the first one is kept", text, err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); len(left) != 1 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}
