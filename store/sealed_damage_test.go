package store_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

func tamper(t *testing.T, s *store.Store, fn func(b *bolt.Bucket) error) {
	t.Helper()
	err := store.UpdateFile(context.Background(), s, func(tx *bolt.Tx) error {
		b, err := disk.Collection(tx, pods().ID())
		if err != nil {
			return err
		}
		return fn(b)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// reseal corrects the checksum of a modified record, as an attacker who knows the format would.
func reseal(key string, data []byte) []byte { return disk.Reseal(pods().ID(), key, data) }

func TestSealedRecordsThatWereTamperedWith(t *testing.T) {
	const one, two = "namespace-0/pod-0000", "namespace-1/pod-0001"
	objects := func(b *bolt.Bucket) *bolt.Bucket { return b.Bucket(disk.Objects) }
	edit := func(b *bolt.Bucket, key string, change func(r *disk.Record)) error {
		r, err := disk.ParseRecord(objects(b).Get([]byte(key)))
		if err != nil {
			return err
		}
		change(&r)
		return objects(b).Put([]byte(key), r.Append(nil, pods().ID(), key))
	}
	for name, change := range map[string]func(b *bolt.Bucket) error{
		"swapped": func(b *bolt.Bucket) error {
			first, second := bytes.Clone(objects(b).Get([]byte(one))), bytes.Clone(objects(b).Get([]byte(two)))
			return errors.Join(objects(b).Put([]byte(one), reseal(one, second)), objects(b).Put([]byte(two), reseal(two, first)))
		},
		"an older state of another header": func(b *bolt.Bucket) error {
			return edit(b, one, func(r *disk.Record) { r.RV = "900000" })
		},
		"a flipped bit": func(b *bolt.Bucket) error {
			data := bytes.Clone(objects(b).Get([]byte(one)))
			data[len(data)-1] ^= 4
			return objects(b).Put([]byte(one), reseal(one, data))
		},
		"a flipped bit of the nonce, and no checksum": func(b *bolt.Bucket) error {
			data := bytes.Clone(objects(b).Get([]byte(one)))
			data[len(data)/2] ^= 4
			return objects(b).Put([]byte(one), data)
		},
		"a data key that there is not": func(b *bolt.Bucket) error {
			return edit(b, one, func(r *disk.Record) { r.SealedBy++ })
		},
		"cut short": func(b *bolt.Bucket) error {
			return edit(b, one, func(r *disk.Record) { r.Payload = []byte("short") })
		},
	} {
		for _, residency := range []store.Residency{store.All, store.None} {
			t.Run(name+", "+residency.String(), func(t *testing.T) {
				s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{Encryption: sealing(t, mustKey(t, ""))})
				c := openAs(t, s, residency)
				mustList(t, c, 20)
				// A View reads the file, and bypasses objects in memory.
				v, err := s.ViewWith(t.Context(), pods(), mustCodec(t, &corev1.Pod{}))
				if err != nil {
					t.Fatal(err)
				}
				tamper(t, s, change)
				if obj, err := v.Get(t.Context(), one); obj != nil || !isDamaged(err) {
					t.Errorf("Get: %v, %v", obj, err)
				}
				if info := infoOf(t, c); info.MustRelist != store.MustRelistDamaged || s.Err() != nil {
					t.Errorf("%+v, Err: %v", info, s.Err())
				}
				mustList(t, c, 20)
				if info := mustInfo(t, c); info.MustRelist != "" || info.Objects != 20 {
					t.Errorf("after a list: %+v", info)
				}
				wantSound(t, s)
				wantPods(t, c, 20, nil)
				wantIndexed(t, c, 20)
				if n, err := plainRecords(s); err != nil || n > 0 {
					t.Errorf("%d records in plain text, %v", n, err)
				}
				mustClose(t, s)
			})
		}
	}
}

// TestSealedEntriesThatWereTamperedWith checks that Check finds a sealed index entry that was moved to another value,
// and that an entry without its token, the keyed hash of the value, causes no panic.
func TestSealedEntriesThatWereTamperedWith(t *testing.T) {
	for name, change := range map[string]func(index *bolt.Bucket) error{
		"moved": func(index *bolt.Bucket) error {
			k, _ := index.Cursor().First()
			token, key, err := disk.ParseIndexEntry(k)
			if err != nil {
				return err
			}
			last, _ := index.Cursor().Last()
			other, _, err := disk.ParseIndexEntry(last)
			if err != nil || other == token {
				return errors.Join(err, errors.New("there is one value"))
			}
			return errors.Join(index.Delete(bytes.Clone(k)), index.Put(disk.IndexEntry(other, key), nil))
		},
		"no token": func(index *bolt.Bucket) error {
			k, _ := index.Cursor().First()
			_, key, err := disk.ParseIndexEntry(k)
			if err != nil {
				return err
			}
			return errors.Join(index.Delete(bytes.Clone(k)), index.Put(disk.IndexEntry("namespace-0", key), nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := sealing(t, mustKey(t, ""))
			s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{Encryption: e})
			c := mustCollection(t, s, pods())
			mustList(t, c, 20)
			tamper(t, s, func(b *bolt.Bucket) error { return change(b.Bucket(disk.Index).Bucket([]byte("namespace"))) })
			if err := s.Scrub(t.Context()); !isDamaged(err) {
				t.Errorf("scrub: %v", err)
			}
			if _, err := c.IndexValues(t.Context(), "namespace"); name == "no token" && !isDamaged(err) {
				t.Errorf("values: %v", err)
			}
			s = salvage(t, s, store.Options{Encryption: e})
			c = mustCollection(t, s, pods())
			wantSound(t, s)
			wantIndexed(t, c, 20)
			mustClose(t, s)
		})
	}
}

// TestDataKeysThatAreGone checks that sealed records are listed again after a file has lost its data keys, for example
// in a copy by a program that does not know data keys.
func TestDataKeysThatAreGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	e := sealing(t, mustKey(t, ""))
	writeSealed(t, path, 10, e)
	s := mustOpen(t, path, store.Options{})
	err := store.UpdateFile(context.Background(), s,
		func(tx *bolt.Tx) error { return tx.Bucket(disk.Root).Delete(disk.Keys) })
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s = mustOpen(t, path, store.Options{Encryption: e})
	c := mustCollection(t, s, pods())
	if _, err := c.List(t.Context()); !isDamaged(err) {
		t.Errorf("list: %v", err)
	}
	if info := infoOf(t, c); info.MustRelist != store.MustRelistDamaged {
		t.Errorf("%+v", info)
	}
	mustList(t, c, 10)
	wantPods(t, c, 10, nil)
	wantSound(t, s)
	mustClose(t, s)
	s = mustOpen(t, path, store.Options{Encryption: e})
	wantPods(t, mustCollection(t, s, pods()), 10, nil)
	mustClose(t, s)
}

// TestSalvageOfASealedStore checks that Open keeps sealed records and data keys of a damaged file, even without
// encryption keys.
func TestSalvageOfASealedStore(t *testing.T) {
	for name, compression := range map[string]store.Compression{"plain": store.NoCompression, "zstd": store.Zstd} {
		for _, withKeys := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "store")
				e := sealing(t, mustKey(t, ""))
				s := mustOpen(t, path, store.Options{Encryption: e})
				c := openCompressed(t, s, compression)
				mustList(t, c, 80)
				mustOpenCursor(t, c, "h")
				applyNewer(t, c, 0, 20, 5000)
				mustClose(t, s)
				o := store.Options{}
				if withKeys {
					o.Encryption = e
				}
				s = mustOpen(t, path, o)
				tamper(t, s, func(b *bolt.Bucket) error {
					key := []byte("namespace-4/pod-0079")
					data := bytes.Clone(b.Bucket(disk.Objects).Get(key))
					data[len(data)-1] ^= 1
					return b.Bucket(disk.Objects).Put(key, data)
				})
				s = salvage(t, s, o)
				wantSound(t, s)
				mustClose(t, s)
				s = mustOpen(t, path, store.Options{Encryption: e})
				c = openCompressed(t, s, compression)
				wantSound(t, s)
				keys, err := c.Keys(t.Context())
				if err != nil || len(keys) != 79 || mustInfo(t, c).MustRelist != store.MustRelistDamaged {
					t.Fatalf("%d keys, %v, %+v", len(keys), err, mustInfo(t, c))
				}
				for _, key := range keys {
					if obj, err := c.Get(t.Context(), key); obj == nil || err != nil {
						t.Errorf("%s: %v", key, err)
					}
				}
				if n, err := plainRecords(s); err != nil || n > 0 || !mustInfo(t, c).Sealed {
					t.Errorf("%d records in plain text, %v", n, err)
				}
				mustClose(t, s)
			})
		}
	}
}

func TestSealedTombstonesAndDictionariesThatWereTamperedWith(t *testing.T) {
	for name, change := range map[string]func(b *bolt.Bucket) error{
		"tombstones swapped": func(b *bolt.Bucket) error {
			tombstones := b.Bucket(disk.Tombstones)
			cur := tombstones.Cursor()
			k1, v1 := cur.First()
			k2, v2 := cur.Next()
			swap := func(own, other []byte) ([]byte, error) {
				key, to, err := disk.ParseTombstone(own)
				if err != nil {
					return nil, err
				}
				_, from, err := disk.ParseTombstone(other)
				if err != nil {
					return nil, err
				}
				to.UID, to.RV, to.Payload = from.UID, from.RV, from.Payload
				return to.Append([]byte(key), pods().ID(), key), nil
			}
			k1, v1, k2, v2 = bytes.Clone(k1), bytes.Clone(v1), bytes.Clone(k2), bytes.Clone(v2)
			new1, err := swap(v1, v2)
			if err != nil {
				return err
			}
			new2, err := swap(v2, v1)
			return errors.Join(err, tombstones.Put(k1, new1), tombstones.Put(k2, new2))
		},
		"a dictionary": func(b *bolt.Bucket) error {
			dicts := b.Bucket(disk.Dictionaries)
			k, v := dicts.Cursor().First()
			v = bytes.Clone(v)
			v[len(v)-1] ^= 1
			return dicts.Put(bytes.Clone(k), reseal(disk.DictionaryKey(disk.ParseSeqKey(k)), v))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store")
			e := sealing(t, mustKey(t, ""))
			s := mustOpen(t, path, store.Options{Encryption: e})
			c := openCompressed(t, s, store.Zstd)
			mustList(t, c, 80)
			mustOpenCursor(t, c, "h")
			b := entry.Batch{ResourceVersion: "9000"}
			for i := range 5 {
				b.Ops = append(b.Ops, entry.Op{Type: entry.Delete, Object: somePod(i)})
			}
			if _, err := c.Apply(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			tamper(t, s, change)
			mustClose(t, s)
			s = mustOpen(t, path, store.Options{Encryption: e})
			openCompressed(t, s, store.Zstd)
			if err := s.Scrub(t.Context()); !isDamaged(err) {
				t.Errorf("scrub: %v", err)
			}
			s = salvage(t, s, store.Options{Encryption: e})
			c = openCompressed(t, s, store.Zstd)
			wantSound(t, s)
			if info := mustInfo(t, c); (info.MustRelist == store.MustRelistDamaged) != (name == "a dictionary") {
				t.Errorf("%+v", info)
			}
			mustClose(t, s)
		})
	}
}
