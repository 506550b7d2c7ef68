package store

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// tamper changes the collection of pods behind the back of the store.
func tamper(t *testing.T, s *Store, fn func(b *bolt.Bucket) error) {
	t.Helper()
	err := s.update(context.Background(), func(tx *bolt.Tx) error {
		b, err := collectionBucket(tx, pods().ID())
		if err != nil {
			return err
		}
		return fn(b)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// reseal gives a record the checksum that it would have under that key: somebody who knows the format does that too.
func reseal(key string, data []byte) []byte { return seal(pods().ID(), key, data) }

// TestSealedRecordsThatWereTamperedWith are damage, as if a disk had done it, and are repaired as that is.
func TestSealedRecordsThatWereTamperedWith(t *testing.T) {
	const one, two = "namespace-0/pod-0000", "namespace-1/pod-0001"
	objects := func(b *bolt.Bucket) *bolt.Bucket { return b.Bucket(bucketObjects) }
	for name, change := range map[string]func(b *bolt.Bucket) error{
		"swapped": func(b *bolt.Bucket) error {
			first, second := bytes.Clone(objects(b).Get([]byte(one))), bytes.Clone(objects(b).Get([]byte(two)))
			return errors.Join(objects(b).Put([]byte(one), reseal(one, second)), objects(b).Put([]byte(two), reseal(two, first)))
		},
		"an older state of another header": func(b *bolt.Bucket) error {
			h, payload, err := parseRecord(pods().ID(), one, objects(b).Get([]byte(one)))
			if err != nil {
				return err
			}
			h.RV = "900000"
			return objects(b).Put([]byte(one), appendRecord(nil, pods().ID(), one, h, bytes.Clone(payload)))
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
			h, payload, err := parseRecord(pods().ID(), one, objects(b).Get([]byte(one)))
			if err != nil {
				return err
			}
			h.SealedBy++
			return objects(b).Put([]byte(one), appendRecord(nil, pods().ID(), one, h, bytes.Clone(payload)))
		},
		"cut short": func(b *bolt.Bucket) error {
			h, _, err := parseRecord(pods().ID(), one, objects(b).Get([]byte(one)))
			if err != nil {
				return err
			}
			return objects(b).Put([]byte(one), appendRecord(nil, pods().ID(), one, h, []byte("short")))
		},
	} {
		for _, residency := range []Residency{All, Bounded(1 << 20), None} {
			t.Run(name+", "+residency.String(), func(t *testing.T) {
				s := mustOpen(t, filepath.Join(t.TempDir(), "store"), Options{Encryption: sealing(t, mustKey(t, ""))})
				c := openAs(t, s, residency)
				mustList(t, c, 20)
				tamper(t, s, change)
				if obj, err := c.reader.Get(t.Context(), one); obj != nil || !isDamaged(err) {
					t.Errorf("Get: %v, %v", obj, err)
				}
				if err := s.Err(); !isDamaged(err) {
					t.Errorf("Err: %v", err)
				}
				if err := s.Rebuild(t.Context()); err != nil {
					t.Fatal(err)
				}
				wantSound(t, s)
				if info := mustInfo(t, c); info.MustRelist != MustRelistDamaged || info.Objects >= 20 {
					t.Errorf("%+v", info)
				}
				mustList(t, c, 20)
				wantPods(t, c, 20, nil)
				wantIndexed(t, c, 20)
				if n, err := PlainRecords(s); err != nil || n > 0 {
					t.Errorf("%d records in plain text, %v", n, err)
				}
				mustClose(t, s)
			})
		}
	}
}

// TestSealedEntriesThatWereTamperedWith: an index entry moved to another value is found by Check, and one that is no token is no panic.
func TestSealedEntriesThatWereTamperedWith(t *testing.T) {
	for name, change := range map[string]func(index *bolt.Bucket) error{
		"moved": func(index *bolt.Bucket) error {
			k, _ := index.Cursor().First()
			token, key, err := parseIndexEntry(k, nil)
			if err != nil {
				return err
			}
			last, _ := index.Cursor().Last()
			other, _, err := parseIndexEntry(last, nil)
			if err != nil || other == token {
				return errors.Join(err, errors.New("there is one value"))
			}
			return errors.Join(index.Delete(bytes.Clone(k)), index.Put(indexKey(other, key), nil))
		},
		"no token": func(index *bolt.Bucket) error {
			k, _ := index.Cursor().First()
			_, key, err := parseIndexEntry(k, nil)
			if err != nil {
				return err
			}
			return errors.Join(index.Delete(bytes.Clone(k)), index.Put(indexKey("namespace-0", key), nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, filepath.Join(t.TempDir(), "store"), Options{Encryption: sealing(t, mustKey(t, ""))})
			c := mustCollection(t, s, pods())
			mustList(t, c, 20)
			tamper(t, s, func(b *bolt.Bucket) error { return change(b.Bucket(bucketIndex).Bucket([]byte("namespace"))) })
			if err := s.Scrub(t.Context()); !isDamaged(err) {
				t.Errorf("scrub: %v", err)
			}
			if _, err := c.IndexValues(t.Context(), "namespace"); name == "no token" && !isDamaged(err) {
				t.Errorf("values: %v", err)
			}
			if err := s.Rebuild(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantSound(t, s)
			wantIndexed(t, c, 20)
			mustClose(t, s)
		})
	}
}

// TestDataKeysThatAreGone, as after a rebuild by a program that knows of none: what was sealed with them is lost, once, and listed anew.
func TestDataKeysThatAreGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	e := sealing(t, mustKey(t, ""))
	writeSealed(t, path, 10, e)
	s := mustOpen(t, path, Options{})
	err := s.update(context.Background(), func(tx *bolt.Tx) error { return tx.Bucket(bucketLarder).Delete(keyKeys) })
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s = mustOpen(t, path, Options{Encryption: e})
	c := mustCollection(t, s, pods())
	if _, err := c.List(t.Context()); !isDamaged(err) {
		t.Errorf("list: %v", err)
	}
	if err := s.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info := mustInfo(t, c); info.MustRelist != MustRelistDamaged || info.Objects != 0 {
		t.Errorf("%+v", info)
	}
	mustList(t, c, 10)
	wantPods(t, c, 10, nil)
	wantSound(t, s)
	mustClose(t, s)
	s = mustOpen(t, path, Options{Encryption: e})
	wantPods(t, mustCollection(t, s, pods()), 10, nil)
	mustClose(t, s)
}

// TestRebuildOfASealedStore: with keys and without, what is good is copied as it is, and so are the data keys.
func TestRebuildOfASealedStore(t *testing.T) {
	for name, compression := range map[string]Compression{"plain": NoCompression, "zstd": Zstd} {
		for _, withKeys := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "store")
				e := sealing(t, mustKey(t, ""))
				s := mustOpen(t, path, Options{Encryption: e})
				c := openPacked(t, s, compression)
				mustList(t, c, 80)
				mustFeed(t, c, "h")
				applyNewer(t, c, 0, 20, 5000)
				mustClose(t, s)
				o := Options{}
				if withKeys {
					o.Encryption = e
				}
				s = mustOpen(t, path, o)
				tamper(t, s, func(b *bolt.Bucket) error {
					key := []byte("namespace-4/pod-0079")
					data := bytes.Clone(b.Bucket(bucketObjects).Get(key))
					data[len(data)-1] ^= 1
					if withKeys {
						data = reseal(string(key), data)
					}
					return b.Bucket(bucketObjects).Put(key, data)
				})
				if err := s.Rebuild(t.Context()); err != nil {
					t.Fatal(err)
				}
				wantSound(t, s)
				mustClose(t, s)
				s = mustOpen(t, path, Options{Encryption: e})
				c = openPacked(t, s, compression)
				wantSound(t, s)
				keys, err := c.Keys(t.Context())
				if err != nil || len(keys) != 79 || mustInfo(t, c).MustRelist != MustRelistDamaged {
					t.Fatalf("%d keys, %v, %+v", len(keys), err, mustInfo(t, c))
				}
				for _, key := range keys {
					if obj, err := c.Get(t.Context(), key); obj == nil || err != nil {
						t.Errorf("%s: %v", key, err)
					}
				}
				if n, err := PlainRecords(s); err != nil || n > 0 || !mustInfo(t, c).Sealed {
					t.Errorf("%d records in plain text, %v", n, err)
				}
				mustClose(t, s)
			})
		}
	}
}

// TestSealedTombstonesAndDictionariesThatWereTamperedWith are damage that takes Rebuild.
func TestSealedTombstonesAndDictionariesThatWereTamperedWith(t *testing.T) {
	for name, change := range map[string]func(b *bolt.Bucket) error{
		"tombstones swapped": func(b *bolt.Bucket) error {
			tombstones := b.Bucket(bucketTombstones)
			cur := tombstones.Cursor()
			k1, v1 := cur.First()
			k2, v2 := cur.Next()
			swap := func(k, own, other []byte) ([]byte, error) {
				seq, _ := parseSeqKey(k)
				to, err := parseTombstone(pods().ID(), seq, own)
				if err != nil {
					return nil, err
				}
				fromSeq, _ := parseSeqKey(k1)
				if bytes.Equal(k, k1) {
					fromSeq, _ = parseSeqKey(k2)
				}
				from, err := parseTombstone(pods().ID(), fromSeq, other)
				if err != nil {
					return nil, err
				}
				to.UID, to.RV, to.payload = from.UID, from.RV, from.payload
				return to.append(func(dst, _ []byte, key string, h header, payload []byte) []byte {
					return appendRecord(dst, pods().ID(), key, h, payload)
				}), nil
			}
			k1, v1, k2, v2 = bytes.Clone(k1), bytes.Clone(v1), bytes.Clone(k2), bytes.Clone(v2)
			new1, err := swap(k1, v1, v2)
			if err != nil {
				return err
			}
			new2, err := swap(k2, v2, v1)
			return errors.Join(err, tombstones.Put(k1, new1), tombstones.Put(k2, new2))
		},
		"a dictionary": func(b *bolt.Bucket) error {
			dicts := b.Bucket(bucketDictionaries)
			k, v := dicts.Cursor().First()
			id, _ := parseDictionaryKey(k)
			v = bytes.Clone(v)
			v[len(v)-1] ^= 1
			return dicts.Put(bytes.Clone(k), reseal(dictionaryPlace(id), v))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store")
			e := sealing(t, mustKey(t, ""))
			s := mustOpen(t, path, Options{Encryption: e})
			c := openPacked(t, s, Zstd)
			mustList(t, c, 80)
			mustFeed(t, c, "h")
			b := Batch{ResourceVersion: "9000"}
			for i := range 5 {
				b.Ops = append(b.Ops, Op{Type: Delete, Object: somePod(i)})
			}
			if _, err := c.Apply(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			tamper(t, s, change)
			mustClose(t, s)
			s = mustOpen(t, path, Options{Encryption: e})
			c = openPacked(t, s, Zstd)
			if err := s.Scrub(t.Context()); !isDamaged(err) {
				t.Errorf("scrub: %v", err)
			}
			if err := s.Rebuild(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantSound(t, s)
			if info := mustInfo(t, c); (info.MustRelist == MustRelistDamaged) != (name == "a dictionary") {
				t.Errorf("%+v", info)
			}
			mustClose(t, s)
		})
	}
}
