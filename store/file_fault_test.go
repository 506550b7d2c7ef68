package store_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

// TestFileChangedWhileOpen checks that reads and writes fail with an error, nothing panics and Close returns after the
// mapped file was truncated or overwritten with zeros.
func TestFileChangedWhileOpen(t *testing.T) {
	cut := func(size int) func(path string) error {
		return func(path string) error { return os.Truncate(path, int64(size)) }
	}
	for what, change := range map[string]func(path string) error{
		"cut to 0":       cut(0),
		"cut to a page":  cut(filePageSize),
		"cut to 64 KiB":  cut(scaled(64 << 10)),
		"cut to 400 KiB": cut(scaled(400 << 10)),
		"zeros over it": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(make([]byte, 1<<20), 0)
			return errors.Join(err, f.Close())
		},
	} {
		path, _ := populated(t, true)
		s := mustOpen(t, path, store.Options{})
		reader := mustBeginView(t, s)
		if err := change(path); err != nil {
			t.Fatal(err)
		}
		if _, err := readAll(s); !errors.Is(err, entry.ErrDamaged) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: read: %v", what, err)
		}
		if err := put(s, []byte("v"), "namespace-1/new"); !errors.Is(err, entry.ErrDamaged) {
			t.Errorf("%s: write: %v", what, err)
		}
		if !errors.Is(s.Err(), entry.ErrDamaged) {
			t.Errorf("%s: Err: %v", what, s.Err())
		}
		if err := reader(); !errors.Is(err, entry.ErrDamaged) {
			t.Errorf("%s: a reader that had begun before: %v", what, err)
		}
		mustClose(t, s)
		if noticed := survive(t, path, what); noticed != "open" && !(what == "cut to 0" && noticed == "") {
			t.Errorf("%s: the next process noticed at %q", what, noticed)
		}
	}
}

// TestStuckLock checks that Close does not wait for bbolt's locks after a memory fault inside bbolt has left them held.
// The file is truncated between the check of its size and bbolt's read.
func TestStuckLock(t *testing.T) {
	for _, writable := range []bool{false, true} {
		path, _ := populated(t, true)
		s := mustOpen(t, path, store.Options{})
		store.WaitBackground(s) // otherwise the background verification would read the truncated file
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+"-copy", data, 0o600); err != nil {
			t.Fatal(err)
		}
		whole, err := os.Open(path + "-copy")
		if err != nil {
			t.Fatal(err)
		}
		stuck, restore := store.LookAt(s, whole)
		if err := os.Truncate(path, int64(filePageSize)); err != nil {
			t.Fatal(err)
		}
		if writable {
			err = put(s, nil, "k")
		} else {
			_, err = readAll(s)
		}
		if !errors.Is(err, entry.ErrDamaged) || !stuck() {
			t.Errorf("writable %t: %v, stuck %t", writable, err, stuck())
		}
		if _, err := readAll(s); !errors.Is(err, entry.ErrDamaged) {
			t.Errorf("writable %t: a read after that: %v", writable, err)
		}
		restore()
		mustClose(t, s)
		if err := whole.Close(); err != nil {
			t.Error(err)
		}
		if noticed := survive(t, path, "stuck"); noticed != "open" {
			t.Errorf("the next process noticed at %q", noticed)
		}
	}
}

// mustBeginView begins and pauses a read transaction. The returned function finishes it and returns its error.
func mustBeginView(t *testing.T, s *store.Store) func() error {
	t.Helper()
	begun, read, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- store.ViewFile(t.Context(), s, func(tx *bolt.Tx) error {
			close(begun)
			<-read
			sum := 0
			return tx.Bucket(disk.Root).Bucket([]byte("test")).Bucket(disk.Objects).ForEach(func(_, v []byte) error {
				for _, b := range v {
					sum += int(b)
				}
				return nil
			})
		})
	}()
	<-begun
	return func() error {
		close(read)
		return <-done
	}
}

// TestOtherPanics checks that a panic of the function in a transaction is not reported as damage, but propagates to the
// caller after the transaction has ended.
func TestOtherPanics(t *testing.T) {
	path, _ := populated(t, true)
	s := mustOpen(t, path, store.Options{})
	for name, run := range map[string]func(fn func(tx *bolt.Tx) error) error{
		"view":   func(fn func(tx *bolt.Tx) error) error { return store.ViewFile(t.Context(), s, fn) },
		"update": func(fn func(tx *bolt.Tx) error) error { return store.UpdateFile(t.Context(), s, fn) },
	} {
		for _, mistake := range []func(){
			func() { panic("ours") },
			func() { var e error; _ = e.Error() },
			func() { var p *corev1.Pod; _ = p.Name },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: a panic was swallowed", name)
					}
				}()
				err := run(func(*bolt.Tx) error { mistake(); return nil })
				t.Errorf("%s: no panic, but %v", name, err)
			}()
		}
	}
	if s.Err() != nil {
		t.Errorf("Err: %v", s.Err())
	}
	if err := put(s, nil, "still/works"); err != nil {
		t.Error(err)
	}
	mustClose(t, s)
}
