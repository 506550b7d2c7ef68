//go:build unix

package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store"
)

// overwrite copies file over the file at path and keeps the inode, as cp does.
func overwrite(t *testing.T, path string, file []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(file)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func another(t *testing.T, full bool) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other.db")
	s := openAt(t, path, byHand())
	if full {
		relist(t, openPods(t, s, byNamespaceAndColor), store.ReplaceOptions{}, "900", upsert("other/secret", "900"))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return readFile(t, path)
}

// foreignFile returns the contents of a bbolt file of another program.
func foreignFile(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "foreign.db")
	db, err := bolt.Open(path, 0o600, nil)
	if err == nil {
		for range 20 {
			err = errors.Join(err, db.Update(func(tx *bolt.Tx) error {
				_, err := tx.CreateBucketIfNotExists([]byte("key"))
				return err
			}))
		}
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return readFile(t, path)
}

// TestOverwrittenFile checks that a store neither reads nor writes a file that was copied over its own, and reports
// ErrOverwritten from then on (issue 37).
func TestOverwrittenFile(t *testing.T) {
	foreign := foreignFile(t)
	for name, file := range map[string]func(own []byte) []byte{
		"another store":                                  func([]byte) []byte { return another(t, true) },
		"another store, empty":                           func([]byte) []byte { return another(t, false) },
		"an older copy of the store":                     func(own []byte) []byte { return own },
		"an older copy of the store, after a compaction": func(own []byte) []byte { return own },
		"a database of another kind":                     func([]byte) []byte { return foreign },
		"another store, of more data":                    func([]byte) []byte { return append(another(t, true), make([]byte, 64<<20)...) },
	} {
		name, compacted := strings.CutSuffix(name, ", after a compaction")
		t.Run(fmt.Sprint(name, compacted), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.db")
			s := openAt(t, path, byHand())
			c := openPods(t, s, byNamespaceAndColor)
			relist(t, c, store.ReplaceOptions{}, "5", upsert("a/x", "1"))
			flush(t, s)
			// These commits give the copied file a higher transaction id than the compacted file has.
			for n := range 20 {
				apply(t, c, strconv.Itoa(6+n), upsert("a/y", strconv.Itoa(6+n)))
				flush(t, s)
			}
			own := readFile(t, path)
			apply(t, c, "30", upsert("a/y", "30"))
			flush(t, s)
			if compacted {
				if _, err := s.Compact(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			apply(t, c, "31", upsert("a/z", "31"))
			written := file(own)
			overwrite(t, path, written)
			failed := s.Failed()
			for what, call := range map[string]func(ctx context.Context) error{
				"Collections": func(ctx context.Context) error { _, err := s.Collections(ctx); return err },
				"List":        func(ctx context.Context) error { _, err := c.List(ctx); return err },
				"Get":         func(ctx context.Context) error { _, err := c.Get(ctx, "a/x"); return err },
				"Page":        func(ctx context.Context) error { _, err := c.Page(ctx, store.PageOptions{Limit: 1}); return err },
				"View":        func(ctx context.Context) error { _, err := s.View(ctx, pods()); return err },
				"Flush":       s.Flush,
				"Compact":     func(ctx context.Context) error { _, err := s.Compact(ctx); return err },
			} {
				for range 2 {
					if err := call(t.Context()); !errors.Is(err, store.ErrOverwritten) {
						t.Errorf("%s: %v", what, err)
					}
				}
			}
			select {
			case <-failed:
			default:
				t.Error("the store has not failed")
			}
			overwrite(t, path, own) // even copying the store's own contents back does not make it usable
			if _, err := s.Collections(t.Context()); !errors.Is(err, store.ErrOverwritten) {
				t.Errorf("after another copy: %v", err)
			}
			overwrite(t, path, written)
			if err := s.Close(); !errors.Is(err, store.ErrOverwritten) {
				t.Errorf("Close: %v", err)
			}
			if !bytes.Equal(readFile(t, path), written) {
				t.Error("the other file was written")
			}
		})
	}
}

// TestOverwrittenFileAtRest checks that an overwritten file is noticed within 10 s, even without a read or write.
func TestOverwrittenFileAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s.db")
		s := openAt(t, path, byHand())
		overwrite(t, path, another(t, false))
		select {
		case <-s.Failed():
		case <-time.After(10 * time.Second):
			synctest.Wait()
		}
		if err := s.Err(); !errors.Is(err, store.ErrOverwritten) {
			t.Errorf("after ten seconds: %v", err)
		}
		if err := s.Close(); !errors.Is(err, store.ErrOverwritten) {
			t.Errorf("Close: %v", err)
		}
	})
}
