package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store"
)

var (
	inObjects = []byte("objects")
	inIndex   = []byte("index")
)

func colors(b *bolt.Bucket) *bolt.Bucket { return b.Bucket(inIndex).Bucket([]byte("color")) }

// flip damages the body of a record.
func flip(key string) func(b *bolt.Bucket) error {
	return func(b *bolt.Bucket) error {
		data := bytes.Clone(b.Bucket(inObjects).Get([]byte(key)))
		data[len(data)-3] ^= 4
		return b.Bucket(inObjects).Put([]byte(key), data)
	}
}

// punch deletes records without a trace.
func punch(keys ...string) func(b *bolt.Bucket) error {
	return func(b *bolt.Bucket) error {
		for _, key := range keys {
			if err := b.Bucket(inObjects).Delete([]byte(key)); err != nil {
				return err
			}
		}
		return nil
	}
}

// holed is a store with a collection of 1,100 pods, in each residency.
func holed(t *testing.T, residency store.Residency) (*store.Store, *store.Collection) {
	t.Helper()
	s, err := store.Open(t.TempDir()+"/larder.db", store.Options{CommitInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	c := openPodsAs(t, s, byNamespaceAndColor, residency)
	fill(t, c, 1100)
	if err := c.WaitResident(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s, c
}

// wantSound fails unless Check finds nothing.
func wantSound(t *testing.T, s *store.Store) {
	t.Helper()
	r, err := s.Check(context.Background())
	if err != nil || len(r.Problems) > 0 {
		t.Errorf("Check: %v, %q", err, r.Problems[:min(len(r.Problems), 5)])
	}
	if err := s.Err(); err != nil {
		t.Errorf("the store still fails: %v", err)
	}
}

// TestMendRepairsInPlace: each kind of damage to single records and entries, and what is left of it in each residency.
func TestMendRepairsInPlace(t *testing.T) {
	residencies := map[string]store.Residency{"all": store.All, "bounded": store.Bounded(1 << 20), "none": store.None}
	key := "ns1/pod0001"
	for name, test := range map[string]struct {
		tamper  func(b *bolt.Bucket) error
		lost    []string // unless it is in memory
		indexes []string
	}{
		"a flipped bit in a body": {flip(key), []string{key}, []string{"color", "namespace"}},
		"a hole":                  {punch("ns0/pod0003", key), []string{"ns0/pod0003", key}, []string{"color", "namespace"}},
		"a record under another key": {func(b *bolt.Bucket) error {
			return b.Bucket(inObjects).Put([]byte("ns1/other"), b.Bucket(inObjects).Get([]byte(key)))
		}, []string{"ns1/other"}, nil},
		"an index entry that is gone": {func(b *bolt.Bucket) error {
			k, _ := colors(b).Cursor().First()
			return colors(b).Delete(k)
		}, nil, []string{"color"}},
		"an index entry of a value that the object does not have": {func(b *bolt.Bucket) error {
			k, _ := colors(b).Cursor().First()
			return colors(b).Put(bytes.Replace(k, []byte("green"), []byte("black"), 1), nil)
		}, nil, []string{"color"}},
		"an index entry that is none": {func(b *bolt.Bucket) error {
			return colors(b).Put([]byte("x"), nil)
		}, nil, []string{"color"}},
	} {
		for residency, r := range residencies {
			t.Run(name+", "+residency, func(t *testing.T) {
				ctx := context.Background()
				s, c := holed(t, r)
				before, err := c.List(ctx)
				if err != nil {
					t.Fatal(err)
				}
				inode := statOf(t, s)
				if err := store.Tamper(c, test.tamper); err != nil {
					t.Fatal(err)
				}
				if err := s.Scrub(ctx); !errors.Is(err, store.ErrDamaged) {
					t.Fatalf("Scrub: %v", err)
				}
				written := s.Written()
				mended, err := s.Mend(ctx)
				if err != nil || len(mended) != 1 {
					t.Fatalf("Mend: %+v, %v", mended, err)
				}
				wantSound(t, s)
				if n := s.Written() - written; n > 200<<10 {
					t.Errorf("%d bytes were written", n)
				}
				if !os.SameFile(inode, statOf(t, s)) {
					t.Error("the file has been written anew")
				}
				m := mended[0]
				lost := test.lost
				if residency == "all" {
					inMemory := func(key string) bool { return key != "ns1/other" }
					equalKeys(t, "restored", m.Restored, slices.DeleteFunc(slices.Clone(lost), func(k string) bool { return !inMemory(k) }))
					lost = slices.DeleteFunc(slices.Clone(lost), inMemory)
				}
				equalKeys(t, "lost", m.Lost, lost)
				equalKeys(t, "indexes", m.Indexes, test.indexes)
				keys, unknown := c.TakeLost()
				equalKeys(t, "TakeLost", keys, lost)
				if again, _ := c.TakeLost(); len(again) > 0 || unknown != 0 || m.Unknown != 0 {
					t.Errorf("TakeLost again: %q, unknown %d, %d", again, unknown, m.Unknown)
				}
				info, err := c.Info(ctx)
				if wantLoss := len(lost) > 0; err != nil || (info.MustRelist != "") != wantLoss || (c.Losses() == 1) != wantLoss {
					t.Errorf("info %+v, %d losses, %v", info, c.Losses(), err)
				}
				after, err := c.List(ctx)
				gone := len(lost)
				if name == "a record under another key" {
					gone = 0
				}
				if err != nil || len(after) != len(before)-gone {
					t.Errorf("%d objects of %d are left, %v", len(after), len(before), err)
				}
			})
		}
	}
}

func statOf(t *testing.T, s *store.Store) os.FileInfo {
	t.Helper()
	info, err := os.Stat(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func equalKeys(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestMendLeavesToRebuild what is more than single records and entries.
func TestMendLeavesToRebuild(t *testing.T) {
	for name, tamper := range map[string]func(b *bolt.Bucket) error{
		"an index that is gone": func(b *bolt.Bucket) error { return b.Bucket(inIndex).DeleteBucket([]byte("color")) },
		"an info record that is damaged": func(b *bolt.Bucket) error {
			data := bytes.Clone(b.Get([]byte("info")))
			data[len(data)-3] ^= 4
			return b.Put([]byte("info"), data)
		},
		"objects that are gone": func(b *bolt.Bucket) error { return b.DeleteBucket(inObjects) },
		"too many": func(b *bolt.Bucket) error {
			for n := range 1050 {
				if err := flip(fmt.Sprintf("ns%d/pod%04d", n%3, n))(b); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			s, c := holed(t, store.None)
			if err := store.Tamper(c, tamper); err != nil {
				t.Fatal(err)
			}
			if err := s.Scrub(ctx); !errors.Is(err, store.ErrDamaged) {
				t.Fatalf("Scrub: %v", err)
			}
			if mended, err := s.Mend(ctx); !errors.Is(err, store.ErrDamaged) || mended != nil {
				t.Fatalf("Mend: %+v, %v", mended, err)
			}
			if s.Err() == nil {
				t.Error("the store does not fail any more")
			}
			if err := s.Rebuild(ctx); err != nil {
				t.Fatal(err)
			}
			wantSound(t, s)
		})
	}
}

// TestMendUnderPendingChanges: records that are bad, or not there, while what is pending replaces, removes or adds to them.
func TestMendUnderPendingChanges(t *testing.T) {
	for name, residency := range map[string]store.Residency{"all": store.All, "none": store.None} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			path := t.TempDir() + "/larder.db"
			s, err := store.Open(path, store.Options{CommitInterval: 1 << 40})
			if err != nil {
				t.Fatal(err)
			}
			c := openPodsAs(t, s, byNamespaceAndColor, residency)
			fill(t, c, 100)
			if err := s.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			if err := c.WaitResident(ctx); err != nil {
				t.Fatal(err)
			}
			keys, err := c.Keys(ctx)
			if err != nil {
				t.Fatal(err)
			}
			replaced, removed, lost := keys[10], keys[20], keys[30]
			ops := []store.Op{upsert(replaced, "9001"), remove(removed, "9003"), upsert("ns1/new", "9002")}
			if _, err := c.Apply(ctx, store.Batch{Ops: ops, ResourceVersion: "9003"}); err != nil {
				t.Fatal(err)
			}
			want, err := c.Keys(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Tamper(c, func(b *bolt.Bucket) error {
				return errors.Join(flip(replaced)(b), flip(removed)(b), flip(lost)(b))
			}); err != nil {
				t.Fatal(err)
			}
			if err := s.Scrub(ctx); !errors.Is(err, store.ErrDamaged) {
				t.Fatalf("Scrub: %v", err)
			}
			if _, err := s.Mend(ctx); err != nil {
				t.Fatal(err)
			}
			if err := s.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			if name == "none" {
				equalKeys(t, "lost", first(c.TakeLost()), []string{lost})
				want = slices.DeleteFunc(want, func(key string) bool { return key == lost })
			}
			got, err := c.Keys(ctx)
			if err != nil {
				t.Fatal(err)
			}
			equalKeys(t, "keys", got, want)
			info, err := c.Info(ctx)
			if err != nil || info.Objects != len(want) {
				t.Errorf("Info says %d objects of %d, %v", info.Objects, len(want), err)
			}
			wantSound(t, s)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func first(keys []string, _ int) []string { return keys }

// TestResumableAfterMend: once what was lost is back the file says so, also to the next process. Before that the next process has to list.
func TestResumableAfterMend(t *testing.T) {
	ctx := context.Background()
	s, c := holed(t, store.None)
	if err := store.Tamper(c, punch("ns1/pod0001")); err != nil {
		t.Fatal(err)
	}
	if err := s.Scrub(ctx); !errors.Is(err, store.ErrDamaged) {
		t.Fatal(err)
	}
	if _, err := s.Mend(ctx); err != nil {
		t.Fatal(err)
	}
	if infos, err := s.Collections(ctx); err != nil || infos[0].MustRelist == "" {
		t.Errorf("the file says %+v, %v", infos, err)
	}
	if _, err := c.Apply(ctx, store.Batch{Ops: []store.Op{upsert("ns1/pod0001", "1")}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Resumable(ctx, c.Losses()-1); err != nil {
		t.Fatal(err)
	}
	if infos, err := s.Collections(ctx); err != nil || infos[0].MustRelist == "" {
		t.Errorf("after a loss that nobody has made good the file says %+v, %v", infos, err)
	}
	if err := c.Resumable(ctx, c.Losses()); err != nil {
		t.Fatal(err)
	}
	if infos, err := s.Collections(ctx); err != nil || infos[0].MustRelist != "" || infos[0].Objects != 1100 {
		t.Errorf("the file says %+v, %v", infos, err)
	}
	wantSound(t, s)
}

// TestMendOfAClosedCollection: nobody has it open, and the next who opens it lists.
func TestMendOfAClosedCollection(t *testing.T) {
	ctx := context.Background()
	s, c := holed(t, store.All)
	if err := store.Tamper(c, punch("ns1/pod0001")); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Scrub(ctx); !errors.Is(err, store.ErrDamaged) {
		t.Fatal(err)
	}
	mended, err := s.Mend(ctx)
	if err != nil || len(mended) != 1 {
		t.Fatalf("%+v, %v", mended, err)
	}
	equalKeys(t, "lost", mended[0].Lost, []string{"ns1/pod0001"})
	if infos, err := s.Collections(ctx); err != nil || infos[0].MustRelist == "" || infos[0].Objects != 1099 {
		t.Errorf("the file says %+v, %v", infos, err)
	}
	wantSound(t, s)
}

// TestMendOfAHoleThatNothingNames: only the count tells.
func TestMendOfAHoleThatNothingNames(t *testing.T) {
	ctx := context.Background()
	s, err := store.Open(t.TempDir()+"/larder.db", store.Options{CommitInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := openPods(t, s, nil)
	fill(t, c, 100)
	keys, err := c.Keys(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Tamper(c, punch(keys[3:5]...)); err != nil {
		t.Fatal(err)
	}
	if err := s.Scrub(ctx); !errors.Is(err, store.ErrDamaged) {
		t.Fatal(err)
	}
	mended, err := s.Mend(ctx)
	if err != nil || len(mended) != 1 || mended[0].Unknown != 2 || len(mended[0].Lost) != 0 {
		t.Fatalf("%+v, %v", mended, err)
	}
	if keys, unknown := c.TakeLost(); len(keys) > 0 || unknown != 2 {
		t.Errorf("TakeLost: %q, %d", keys, unknown)
	}
	wantSound(t, s)
}

// TestMendDoesNothingToASoundStore.
func TestMendDoesNothingToASoundStore(t *testing.T) {
	s, _ := holed(t, store.None)
	if mended, err := s.Mend(context.Background()); err != nil || mended != nil {
		t.Errorf("%+v, %v", mended, err)
	}
}

// TestRefs are what the records say, with what is pending over them, and do not hide that something else is in memory.
func TestRefs(t *testing.T) {
	ctx := context.Background()
	s, c := holed(t, store.All)
	if err := store.Tamper(c, punch("ns1/pod0001")); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for after := ""; ; {
		refs, err := c.Refs(ctx, after, 300)
		if err != nil {
			t.Fatal(err)
		}
		for _, ref := range refs {
			keys = append(keys, ref.Key)
			if (ref.ResourceVersion == "") != (ref.Key == "ns1/pod0001") {
				t.Errorf("%+v", ref)
			}
		}
		if len(refs) < 300 {
			break
		}
		after = refs[len(refs)-1].Key
	}
	want, err := c.Keys(ctx)
	if err != nil {
		t.Fatal(err)
	}
	equalKeys(t, "keys", keys, want)
	if ref, found, err := c.Ref(ctx, "ns1/pod0001"); err != nil || !found || ref.ResourceVersion != "" {
		t.Errorf("%+v, %v, %v", ref, found, err)
	}
	if _, found, err := c.Ref(ctx, "ns1/none"); err != nil || found {
		t.Errorf("%v, %v", found, err)
	}
	if err := s.Scrub(ctx); !errors.Is(err, store.ErrDamaged) { // and what it has found is repaired
		t.Fatal(err)
	}
	if _, err := s.Mend(ctx); err != nil {
		t.Fatal(err)
	}
	if ref, found, err := c.Ref(ctx, "ns1/pod0001"); err != nil || !found || ref.ResourceVersion == "" {
		t.Errorf("%+v, %v, %v", ref, found, err)
	}
}

// TestMendUnderLoad: batches are taken in, committed and read while records are damaged and repaired again and again.
func TestMendUnderLoad(t *testing.T) {
	for name, residency := range map[string]store.Residency{"all": store.All, "none": store.None} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			s, err := store.Open(t.TempDir()+"/larder.db", store.Options{CommitInterval: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			store.NoSync(s)
			c := openPodsAs(t, s, byNamespaceAndColor, residency)
			fill(t, c, 300)
			if err := c.WaitResident(ctx); err != nil {
				t.Fatal(err)
			}
			keys, err := c.Keys(ctx)
			if err != nil {
				t.Fatal(err)
			}
			stop := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for n := 1000; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					ops := []store.Op{upsert(keys[n%100], fmt.Sprint(n)), remove(keys[(n*7)%100], fmt.Sprint(n)), upsert(keys[(n*3)%100], fmt.Sprint(n))}
					if _, err := c.Apply(ctx, store.Batch{Ops: ops, ResourceVersion: fmt.Sprint(n)}); err != nil && !errors.Is(err, store.ErrDamaged) {
						t.Error(err)
						return
					}
				}
			})
			for round := range soaked(8, 200) {
				key := keys[100+round%200] // one that is there
				if err := store.Tamper(c, func(b *bolt.Bucket) error {
					if b.Bucket(inObjects).Get([]byte(key)) == nil {
						return nil // lost in an earlier round
					}
					return flip(key)(b)
				}); err != nil {
					t.Fatal(err)
				}
				if err := s.Scrub(ctx); err != nil && !errors.Is(err, store.ErrDamaged) {
					t.Fatal(err)
				}
				if _, err := s.Mend(ctx); err != nil {
					t.Fatal(err)
				}
			}
			close(stop)
			wg.Wait()
			if err := s.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			info, err := c.Info(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if now, err := c.Keys(ctx); err != nil || len(now) != info.Objects {
				t.Errorf("%d keys, and Info says %d, %v", len(now), info.Objects, err)
			}
			if name == "all" {
				if lost, _ := c.TakeLost(); len(lost) > 0 {
					t.Errorf("lost %q, which were in memory", lost)
				}
			}
			wantSound(t, s)
		})
	}
}
