package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/larder-dev/larder/entry"
	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// thinned returns filled with many's pods deleted but for every tenth, and what that has left to be returned.
func thinned(t *testing.T, o Options) (s *Store, many, few *Collection) {
	t.Helper()
	o.CommitInterval = -1
	s, many, few = filled(t, o)
	for range soaked(1, 3) { // so that the file grows
		mustUpdate(t, many)
	}
	batch := Batch{ResourceVersion: "9000"}
	for i := range 1000 {
		if i%10 != 0 {
			batch.Ops = append(batch.Ops, Op{Type: Delete, Object: somePod(i)})
		}
	}
	if _, err := many.Apply(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	return s, many, few
}

// mustUpdate gives each pod of many a large annotation.
func mustUpdate(t *testing.T, many *Collection) {
	t.Helper()
	batch := Batch{ResourceVersion: "8000"}
	for i := range 1000 {
		p := somePod(i)
		p.ResourceVersion, p.Annotations["large"] = "8000", strings.Repeat("y", 10_000)
		batch.Ops = append(batch.Ops, Op{Object: p})
	}
	if _, err := many.Apply(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
}

func rootKeys(t *testing.T, s *Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := s.view(t.Context(), func(tx *bolt.Tx) error {
		return tx.Bucket(bucketLarder).ForEach(func(k, v []byte) error {
			all[string(k)] = string(v)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestCompact: the file is smaller, nothing else has changed, and who reads and writes does not notice.
func TestCompact(t *testing.T) {
	s, many, few := thinned(t, Options{})
	err := Tamper(few, func(b *bolt.Bucket) error { // what a later program may store
		later, err := b.CreateBucket([]byte("later"))
		if err != nil {
			return err
		}
		return later.Put([]byte("k"), nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	before, info := rootKeys(t, s), mustInfo(t, many)
	wrote := s.Written()

	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range soaked(1, 3) {
		readers.Go(func() {
			for ctx.Err() == nil {
				if objs, err := many.ByIndex(t.Context(), cache.NamespaceIndex, "namespace-0"); err != nil || len(objs) != 100 {
					t.Errorf("a reader got %d objects, %v", len(objs), err)
				}
			}
		})
	}
	done, err := s.Compact(t.Context())
	cancel()
	readers.Wait()
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.Stat(s.Path())
	if err != nil || stat.Size() != done.After || stat.Mode().Perm() != 0o600 {
		t.Errorf("%+v, %v", stat, err)
	}
	if done.Before < int64(soaked(10, 20))<<20 || done.After > 5<<20 {
		t.Errorf("from %d to %d bytes", done.Before, done.After)
	}
	if total, free, err := s.Size(); err != nil || total != done.After || free > 100<<10 {
		t.Errorf("%d bytes, %d of them free, %v", total, free, err)
	}
	if n := s.Written() - wrote; n < 100<<10 || n > done.After {
		t.Errorf("%d bytes are said to be written", n)
	}
	if after := rootKeys(t, s); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the root was %q and is %q", before, after)
	}
	if after := mustInfo(t, many); fmt.Sprint(after) != fmt.Sprint(info) || many.Losses() != 0 {
		t.Errorf("info was %+v and is %+v", info, after)
	}
	err = few.view(t.Context(), func(b *bolt.Bucket) error {
		if later := b.Bucket([]byte("later")); later == nil || later.Get([]byte("k")) == nil {
			t.Error("a bucket that this program does not know is lost")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if n, _ := count(t, few); n != 200 {
		t.Errorf("%d objects of the other collection", n)
	}
	wantUsable(t, s, many)
	wantNames(t, filepath.Dir(s.Path()), "store")
}

func mustInfo(t *testing.T, c *Collection) Info {
	t.Helper()
	_, info := count(t, c)
	return info
}

// TestCompactAtPath: what no process has open is compacted and closed cleanly.
func TestCompactAtPath(t *testing.T) {
	s, _, _ := thinned(t, Options{})
	path := s.Path()
	if err := s.handle.close(); err != nil { // as after a crash
		t.Fatal(err)
	}
	debris := path + suffixNew + "left"
	if err := os.WriteFile(debris, make([]byte, 10), 0o600); err != nil {
		t.Fatal(err)
	}
	done, err := Compact(t.Context(), path, Options{Logger: &quiet})
	if err != nil || done.After >= done.Before {
		t.Fatalf("%+v, %v", done, err)
	}
	wantNames(t, filepath.Dir(path), "store")
	s = mustOpen(t, path, Options{ReadOnly: true})
	if keys := rootKeys(t, s); keys[string(keyClean)] == "" {
		t.Error("not closed cleanly")
	}
	mustClose(t, s)
	s = mustOpen(t, path, Options{})
	many := mustCollection(t, s, pods())
	if n, info := count(t, many); n != 100 || info.ResourceVersion != "9000" {
		t.Errorf("%d objects, %+v", n, info)
	}
	wantUsable(t, s, many)
}

// TestCompactWhileAList: what is staged of a list that is being taken in stays, what a crash has left of one does not.
func TestCompactWhileAList(t *testing.T) {
	s, many, few := thinned(t, Options{})
	for _, c := range []*Collection{many, few} {
		c.limits.staging = 1
		r, err := c.BeginReplace(t.Context(), ReplaceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Abort()
		p := somePod(0)
		p.ResourceVersion = "9500"
		if _, err := r.Page(t.Context(), []runtime.Object{p}); err != nil {
			t.Fatal(err)
		}
		if staged, err := Staged(c); !staged || err != nil {
			t.Fatalf("nothing is staged on the disk: %v", err)
		}
		if c == few {
			break
		}
		if _, err := s.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		res, err := r.Commit(t.Context(), Batch{ResourceVersion: "9600"})
		if err != nil || len(res.Changes) != 100 {
			t.Errorf("%d changes, %v", len(res.Changes), err)
		}
		if n, info := count(t, c); n != 1 || info.ResourceVersion != "9600" || info.MustRelist != "" {
			t.Errorf("%d objects, %+v", n, info)
		}
	}
	if err := s.handle.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Compact(t.Context(), s.Path(), Options{Logger: &quiet}); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, s.Path(), Options{})
	err := s.view(t.Context(), func(tx *bolt.Tx) error {
		b, err := collectionBucket(tx, few.name)
		if err == nil && b.Bucket(bucketStaging) != nil {
			t.Error("what was staged is still there")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	wantUsable(t, s, mustCollection(t, s, otherPods()))
}

// TestCompactFails: nothing has changed then, nothing is left behind, and the next try succeeds.
func TestCompactFails(t *testing.T) {
	s, many, _ := thinned(t, Options{})
	stat := func() os.FileInfo {
		info, err := os.Stat(s.Path())
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	before := stat()
	for what, test := range map[string]struct {
		prepare func() (ctx context.Context, after func())
		want    error
		text    string
	}{
		"no space": {func() (context.Context, func()) {
			s.o.MaxSize = 32 << 10
			return t.Context(), func() { s.o.MaxSize = 0 }
		}, ErrNoSpace, "there must be room for a second copy, about"},
		"cancelled": {func() (context.Context, func()) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx, func() {}
		}, context.Canceled, ""},
		"another has taken its name": {func() (context.Context, func()) {
			if err := errors.Join(os.Rename(s.path, s.path+"-away"), os.WriteFile(s.path, []byte("mine"), 0o600)); err != nil {
				t.Fatal(err)
			}
			return t.Context(), func() {
				if data, err := os.ReadFile(s.path); err != nil || string(data) != "mine" {
					t.Errorf("the other file has %q, %v", data, err)
				}
				if err := os.Rename(s.path+"-away", s.path); err != nil {
					t.Fatal(err)
				}
			}
		}, ErrForeign, "moved"},
		"writing has stopped": {func() (context.Context, func()) {
			s.failNow(ErrOutcomeUnknown)
			return t.Context(), func() {
				s.mu.Lock()
				s.failure, s.failed = nil, make(chan struct{})
				s.mu.Unlock()
				if err := os.Remove(s.path + suffixOpening); err != nil {
					t.Fatal(err)
				}
			}
		}, ErrOutcomeUnknown, "nothing is written"},
	} {
		ctx, after := test.prepare()
		_, err := s.Compact(ctx)
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), s.Path()) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: %v", what, err)
		}
		after()
		if !os.SameFile(stat(), before) || s.Err() != nil {
			t.Errorf("%s: another file, or Err %v", what, s.Err())
		}
		if n, _ := count(t, many); n != 100 {
			t.Errorf("%s: %d objects", what, n)
		}
		wantNames(t, filepath.Dir(s.Path()), "store")
	}
	if _, err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantUsable(t, s, many)
}

// TestCompactRefuses: a file that is not a good store, and nobody else's, is left as it is.
func TestCompactRefuses(t *testing.T) {
	if _, err := Compact(t.Context(), t.TempDir(), Options{}); !errors.Is(err, ErrForeign) {
		t.Errorf("a directory: %v", err)
	}
	good, _, _ := filled(t, Options{})
	if _, err := Compact(t.Context(), good.Path(), Options{LockTimeout: -1}); !errors.Is(err, ErrLocked) || !isHeldHere(err) {
		t.Errorf("open already: %v", err)
	}
	mustClose(t, good)
	data, err := os.ReadFile(good.Path())
	if err != nil {
		t.Fatal(err)
	}
	leaf := bytes.Clone(data)
	clear(leaf[objectPages(t, data)[0]:][:filePageSize])
	record := bytes.Clone(data)
	record[bytes.Index(data, []byte("xxxx"))] ^= 1
	for what, test := range map[string]struct {
		data []byte
		want error
	}{
		"missing":             {nil, fs.ErrNotExist},
		"empty":               {[]byte{}, entry.ErrDamaged},
		"text":                {bytes.Repeat([]byte("text "), 4000), ErrForeign},
		"cut short":           {data[:used(t, good.Path())/2], entry.ErrDamaged},
		"without a leaf":      {leaf, entry.ErrDamaged},
		"with a bad record":   {record, entry.ErrDamaged},
		"without a meta page": {make([]byte, len(data)), entry.ErrDamaged},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "store")
		if test.data != nil {
			if err := os.WriteFile(path, test.data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Compact(t.Context(), path, Options{Logger: &quiet})
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
		left := names(t, dir)
		if test.data == nil && len(left) > 0 || len(beside(path, suffixNew))+len(beside(path, suffixDamaged)) > 0 {
			t.Errorf("%s: the directory has %q", what, left)
		}
		if info, err := os.Stat(path); test.data != nil && (err != nil || info.Size() != int64(len(test.data))) {
			t.Errorf("%s: %v", what, err)
		}
	}
	s := mustOpen(t, good.Path(), Options{ReadOnly: true})
	if _, err := s.Compact(t.Context()); !errors.Is(err, ErrReadOnly) {
		t.Errorf("read-only: %v", err)
	}
}

// TestCopiesKeepBucketsOfLaterPrograms: a bucket beside those that this program knows comes through a compaction and a rekey, with what is in it.
func TestCopiesKeepBucketsOfLaterPrograms(t *testing.T) {
	e := sealing(t, mustKey(t, ""))
	for name, remake := range map[string]func(s *Store) error{
		"compact": func(s *Store) error { _, err := s.Compact(t.Context()); return err },
		"rekey":   func(s *Store) error { _, err := s.Rekey(t.Context()); return err },
	} {
		path := filepath.Join(t.TempDir(), "store")
		writeSealed(t, path, 10, e)
		s := mustOpen(t, path, Options{Encryption: e})
		err := s.update(t.Context(), func(tx *bolt.Tx) error {
			for _, name := range []string{"a later one", "the last"} {
				b, err := tx.CreateBucket([]byte(name))
				if err != nil {
					return err
				}
				nested, err := b.CreateBucket([]byte("nested"))
				if err != nil {
					return err
				}
				if err := errors.Join(b.Put([]byte("k"), []byte("v")), nested.Put([]byte("k"), []byte("w"))); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			err = remake(s)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		err = s.view(t.Context(), func(tx *bolt.Tx) error {
			for _, of := range []string{"a later one", "the last"} {
				b := tx.Bucket([]byte(of))
				if b == nil || string(b.Get([]byte("k"))) != "v" || b.Bucket([]byte("nested")) == nil || string(b.Bucket([]byte("nested")).Get([]byte("k"))) != "w" {
					t.Errorf("%s: the bucket %q is lost, or what is in it", name, of)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		wantSound(t, s)
		if n := len(mustRecords(t, s, pods())); n != 10 {
			t.Errorf("%s: %d pods", name, n)
		}
	}
}
