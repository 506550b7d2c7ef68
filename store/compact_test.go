package store_test

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

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

// thinned returns a filled store with mostly free pages: nine of ten pods of the collection many are deleted.
func thinned(t *testing.T, o store.Options) (s *store.Store, many, few *store.Collection) {
	t.Helper()
	o = store.AtOnce(o)
	s, many, few = filled(t, o)
	for range soaked(1, 3) {
		mustUpdate(t, many)
	}
	batch := entry.Batch{ResourceVersion: "9000"}
	for i := range 1000 {
		if i%10 != 0 {
			batch.Ops = append(batch.Ops, entry.Op{Type: entry.Delete, Object: somePod(i)})
		}
	}
	if _, err := many.Apply(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	return s, many, few
}

// mustUpdate gives each pod of the collection many a large annotation.
func mustUpdate(t *testing.T, many *store.Collection) {
	t.Helper()
	batch := entry.Batch{ResourceVersion: "8000"}
	for i := range 1000 {
		p := somePod(i)
		p.ResourceVersion, p.Annotations["large"] = "8000", strings.Repeat("y", 10_000)
		batch.Ops = append(batch.Ops, entry.Op{Object: p})
	}
	if _, err := many.Apply(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
}

func rootKeys(t *testing.T, s *store.Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := store.ViewFile(t.Context(), s, func(tx *bolt.Tx) error {
		return tx.Bucket(disk.Root).ForEach(func(k, v []byte) error {
			all[string(k)] = string(v)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestCompact(t *testing.T) {
	s, many, few := thinned(t, store.Options{})
	err := tamperWith(few, func(b *bolt.Bucket) error { // a newer program may add a bucket that this program does not know
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
	if after := mustInfo(t, many); fmt.Sprint(after) != fmt.Sprint(info) {
		t.Errorf("info was %+v and is %+v", info, after)
	}
	err = viewOf(few, func(b *bolt.Bucket) error {
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

func mustInfo(t *testing.T, c *store.Collection) entry.Info {
	t.Helper()
	_, info := count(t, c)
	return info
}

func TestCompactLosesNoWrite(t *testing.T) {
	s, _, _ := thinned(t, store.Options{})
	compacted := make(chan error, 1)
	go func() {
		_, err := s.Compact(t.Context())
		compacted <- err
	}()
	stored := 0
	for end := false; !end; stored++ {
		select {
		case err := <-compacted:
			if err != nil {
				t.Fatal(err)
			}
			end = true
		default:
		}
		if err := s.PutDocument(t.Context(), fmt.Sprint(stored), []byte("data")); err != nil {
			t.Fatal(err)
		}
	}
	for n := range stored {
		if data, err := s.Document(t.Context(), fmt.Sprint(n)); err != nil || string(data) != "data" {
			t.Fatalf("document %d of %d is %q, %v", n, stored, data, err)
		}
	}
}

func TestCompactAtPath(t *testing.T) {
	s, _, _ := thinned(t, store.Options{})
	path := mustCrash(t, s)
	debris := path + disk.SuffixNew + "left"
	if err := os.WriteFile(debris, make([]byte, 10), 0o600); err != nil {
		t.Fatal(err)
	}
	done, err := store.Compact(t.Context(), path, store.Options{Logger: &quiet})
	if err != nil || done.After >= done.Before {
		t.Fatalf("%+v, %v", done, err)
	}
	wantNames(t, filepath.Dir(path), "store")
	s = mustOpen(t, path, store.Options{ReadOnly: true})
	if keys := rootKeys(t, s); keys[string(disk.Clean)] == "" {
		t.Error("not closed cleanly")
	}
	mustClose(t, s)
	s = mustOpen(t, path, store.Options{})
	many := mustCollection(t, s, pods())
	if n, info := count(t, many); n != 100 || info.ResourceVersion != "9000" {
		t.Errorf("%d objects, %+v", n, info)
	}
	wantUsable(t, s, many)
}

// TestCompactDuringAList checks that a running Replacement continues after a compaction, whether its changes are held
// back until Commit or already visible.
func TestCompactDuringAList(t *testing.T) {
	s, many, few := thinned(t, store.Options{})
	store.SetLimits(few, 1, store.CommitLimit(few))
	for _, c := range []*store.Collection{many, few} {
		r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Abort()
		before, _ := count(t, c)
		p := somePod(0)
		p.ResourceVersion = "9500"
		first, err := r.Page(t.Context(), []runtime.Object{p})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		res, err := r.Commit(t.Context(), entry.Batch{ResourceVersion: "9600"})
		if n := len(first.Changes) + len(res.Changes); err != nil || n != before {
			t.Errorf("%d changes of %d objects, %v", n, before, err)
		}
		if n, info := count(t, c); n != 1 || info.ResourceVersion != "9600" || info.MustRelist != "" {
			t.Errorf("%d objects, %+v", n, info)
		}
	}
	wantSound(t, s)
}

// TestCompactFails checks that a failed Compact keeps the old file and leaves no other file behind.
func TestCompactFails(t *testing.T) {
	s, many, _ := thinned(t, store.Options{})
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
			store.SetMaxSize(s, 32<<10)
			return t.Context(), func() { store.SetMaxSize(s, 0) }
		}, store.ErrNoSpace, "there must be room for a second copy, about"},
		"cancelled": {func() (context.Context, func()) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx, func() {}
		}, context.Canceled, ""},
		"another has taken its name": {func() (context.Context, func()) {
			if err := errors.Join(os.Rename(s.Path(), s.Path()+"-away"),
				os.WriteFile(s.Path(), []byte("mine"), 0o600)); err != nil {
				t.Fatal(err)
			}
			return t.Context(), func() {
				if data, err := os.ReadFile(s.Path()); err != nil || string(data) != "mine" {
					t.Errorf("the other file has %q, %v", data, err)
				}
				if err := os.Rename(s.Path()+"-away", s.Path()); err != nil {
					t.Fatal(err)
				}
			}
		}, store.ErrForeign, "moved"},
	} {
		ctx, after := test.prepare()
		_, err := s.Compact(ctx)
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), s.Path()) ||
			!strings.Contains(err.Error(), test.text) {
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

// TestCompactOfAFailedStore checks that Compact ends the state after ErrOutcomeUnknown, and that it fails after damage.
func TestCompactOfAFailedStore(t *testing.T) {
	s, many, _ := thinned(t, store.Options{})
	failNow(t, s)
	if _, err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	mustCopyAgain(t, s)
	if after, err := os.Stat(s.Path()); err != nil || !os.SameFile(after, before) {
		t.Errorf("the file was copied once more, %v", err)
	}
	if n, _ := count(t, many); n != 100 {
		t.Errorf("%d objects", n)
	}
	wantUsable(t, s, many)
}

func TestCompactRefuses(t *testing.T) {
	if _, err := store.Compact(t.Context(), t.TempDir(), store.Options{}); !errors.Is(err, store.ErrForeign) {
		t.Errorf("a directory: %v", err)
	}
	good, _, _ := filled(t, store.Options{})
	if _, err := store.Compact(t.Context(), good.Path(), store.Options{LockTimeout: -1}); !errors.Is(err,
		store.ErrLocked) || !isHeldHere(err) {
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
		"text":                {bytes.Repeat([]byte("text "), 4000), store.ErrForeign},
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
		_, err := store.Compact(t.Context(), path, store.Options{Logger: &quiet})
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
		left := filesIn(t, dir)
		if test.data == nil && len(left) > 0 || len(disk.Beside(path, disk.SuffixNew))+len(disk.Beside(path,
			disk.SuffixDamaged)) > 0 {
			t.Errorf("%s: the directory has %q", what, left)
		}
		if info, err := os.Stat(path); test.data != nil && (err != nil || info.Size() != int64(len(test.data))) {
			t.Errorf("%s: %v", what, err)
		}
	}
	s := mustOpen(t, good.Path(), store.Options{ReadOnly: true})
	if _, err := s.Compact(t.Context()); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("read-only: %v", err)
	}
}

// TestCopiesKeepBucketsOfLaterPrograms checks that Compact and Rekey copy buckets that this program does not know.
func TestCopiesKeepBucketsOfLaterPrograms(t *testing.T) {
	e := sealing(t, mustKey(t, ""))
	for name, remake := range map[string]func(s *store.Store) error{
		"compact": func(s *store.Store) error { _, err := s.Compact(t.Context()); return err },
		"rekey":   func(s *store.Store) error { _, err := s.Rekey(t.Context()); return err },
	} {
		path := filepath.Join(t.TempDir(), "store")
		writeSealed(t, path, 10, e)
		s := mustOpen(t, path, store.Options{Encryption: e})
		err := store.UpdateFile(t.Context(), s, func(tx *bolt.Tx) error {
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
		err = store.ViewFile(t.Context(), s, func(tx *bolt.Tx) error {
			for _, of := range []string{"a later one", "the last"} {
				b := tx.Bucket([]byte(of))
				if b == nil || string(b.Get([]byte("k"))) != "v" || b.Bucket([]byte("nested")) == nil ||
					string(b.Bucket([]byte("nested")).Get([]byte("k"))) != "w" {
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
