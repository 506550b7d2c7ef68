package store

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// changeKeys changes the record of the data keys behind the back of the store.
func changeKeys(t *testing.T, s *Store, change func(data []byte) []byte) {
	t.Helper()
	err := s.update(context.Background(), func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketLarder)
		return b.Put(keyKeys, change(bytes.Clone(b.Get(keyKeys))))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// flipLast flips a bit of a wrapped key, or of what is behind it.
func flipLast(data []byte) []byte {
	data[len(data)-1] ^= 1
	return data
}

// mustDamageKeys makes a store of n sealed pods and some widgets, whose data keys are damaged.
func mustDamageKeys(t *testing.T, n int, e *Encryption) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "store")
	writeSealed(t, path, n, e)
	s := mustOpen(t, path, Options{})
	changeKeys(t, s, flipLast)
	mustClose(t, s)
	return path
}

// TestDataKeysThatAreDamaged: what was sealed is lost, once, and listed anew; what is not sealed stays, and nothing is moved aside.
func TestDataKeysThatAreDamaged(t *testing.T) {
	for name, n := range map[string]int{"few": 10, "more than are mended in place": mendRecords + 10} {
		for _, residency := range []Residency{All, None} {
			t.Run(name+", "+residency.String(), func(t *testing.T) {
				e := sealing(t, mustKey(t, ""))
				path := mustDamageKeys(t, n, e)
				var log logged
				s := mustOpen(t, path, Options{Encryption: e, Logger: log.logger()})
				if moved := s.Quarantined(); moved != "" {
					t.Errorf("it was moved aside to %s", moved)
				}
				if n := log.count("What was sealed in the store can not be opened any more", "fetched anew", "data keys"); n != 1 {
					t.Errorf("it was said %d times:\n%s", n, log.text())
				}
				c, err := s.Collection(t.Context(), pods(), CollectionOptions{ // which does not wait for the objects
					Residency: residency, Codec: mustCodec(t, &corev1.Pod{}), Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
				})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.reader.Get(t.Context(), "namespace-0/pod-0000"); !isDamaged(err) || !strings.Contains(err.Error(), "data key") || !strings.Contains(err.Error(), "which is lost") {
					t.Errorf("Get: %v", err)
				}
				if _, err := s.Mend(t.Context()); err != nil {
					if n <= mendRecords || !isDamaged(err) {
						t.Fatalf("Mend: %v", err)
					}
					if err := s.Rebuild(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if info := mustInfo(t, c); info.MustRelist != MustRelistDamaged || info.Objects != 0 || c.Losses() != 1 {
					t.Errorf("%+v, %d losses", info, c.Losses())
				}
				wantWidgetsResumable(t, s)
				mustList(t, c, n)
				wantSound(t, s)
				mustClose(t, s)
				s = mustOpen(t, path, Options{Encryption: e, Logger: log.logger()})
				c = openAs(t, s, residency)
				wantPods(t, c, n, nil)
				if info := mustInfo(t, c); info.MustRelist != "" || !info.Complete || info.Objects != n {
					t.Errorf("the next time: %+v", info)
				}
				wantWidgetsResumable(t, s)
				wantSound(t, s)
				mustClose(t, s)
				if n := log.count("What was sealed in the store can not be opened any more"); n != 1 {
					t.Errorf("it was said %d times:\n%s", n, log.text())
				}
			})
		}
	}
}

// wantWidgetsResumable verifies that the collection that is not sealed is as it was.
func wantWidgetsResumable(t *testing.T, s *Store) {
	t.Helper()
	if n := len(mustKeysOf(t, s, goldenWidgetsID())); n != goldenWidgetCount {
		t.Errorf("%d widgets", n)
	}
	infos, err := s.Collections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		if info.Identity.ID() == goldenWidgetsID().ID() && (info.MustRelist != "" || info.ResourceVersion != "400") {
			t.Errorf("widgets: %+v", info)
		}
	}
}

// TestDataKeysThatAreDamagedAndReaders: with keys and without what is not sealed is served, and nothing is changed.
func TestDataKeysThatAreDamagedAndReaders(t *testing.T) {
	e := sealing(t, mustKey(t, ""))
	path := mustDamageKeys(t, 10, e)
	before := mustRead(t, path)
	for name, o := range map[string]Options{"with keys": {ReadOnly: true, Encryption: e}, "without": {ReadOnly: true}} {
		s := mustOpen(t, path, o)
		if n := len(mustKeysOf(t, s, goldenWidgetsID())); n != goldenWidgetCount {
			t.Errorf("%s: %d widgets", name, n)
		}
		if n := len(mustKeysOf(t, s, pods())); n != 10 {
			t.Errorf("%s: %d names of pods", name, n)
		}
		v, err := s.View(t.Context(), pods())
		if err != nil {
			t.Fatal(err)
		}
		_, err = v.Get(t.Context(), "namespace-0/pod-0000")
		if o.Encryption != nil && !isDamaged(err) || o.Encryption == nil && !errors.Is(err, ErrSealed) {
			t.Errorf("%s: %v", name, err)
		}
		found, err := s.Salvage(t.Context(), goldenWidgetsID(), func(Record) error { return nil })
		if err != nil || !found.Whole() || found.Records != goldenWidgetCount {
			t.Errorf("%s: widgets salvaged: %+v, %v", name, found, err)
		}
		found, err = s.Salvage(t.Context(), pods(), func(Record) error { return nil })
		if o.Encryption != nil && (err != nil || found.Lost != 10) || o.Encryption == nil && !errors.Is(err, ErrSealed) {
			t.Errorf("%s: pods salvaged: %+v, %v", name, found, err)
		}
		if r, err := s.Check(t.Context()); err != nil || len(r.Problems) == 0 || !strings.Contains(r.Problems[0], "data keys") {
			t.Errorf("%s: check: %q, %v", name, r.Problems, err)
		}
		mustClose(t, s)
	}
	if _, err := Rekey(t.Context(), path, Options{Logger: &quiet, Encryption: e}); !isDamaged(err) || !strings.Contains(err.Error(), "fetched anew") {
		t.Errorf("rekey: %v", err)
	}
	s := mustOpen(t, path, Options{ReadOnly: true})
	if r, err := s.Check(t.Context()); err != nil || len(r.Problems) == 0 || !strings.Contains(r.Problems[0], "data keys") {
		t.Errorf("a rekey has changed it: %q, %v", r.Problems, err)
	}
	mustClose(t, s)
	if !bytes.Contains(mustRead(t, path), []byte("pod-0000")) || len(before) != len(mustRead(t, path)) {
		t.Error("a rekey has written the file anew")
	}
}

// TestDataKeysDamagedWhileOpen: found by a scrub, and repaired in place, with nothing lost where the process holds them.
func TestDataKeysDamagedWhileOpen(t *testing.T) {
	for _, withKeys := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "store")
		e := sealing(t, mustKey(t, ""))
		writeSealed(t, path, 10, e)
		var o Options
		if withKeys {
			o.Encryption = e
		}
		s := mustOpen(t, path, o)
		changeKeys(t, s, flipLast)
		if err := s.Scrub(t.Context()); !isDamaged(err) {
			t.Errorf("scrub: %v", err)
		}
		if mended, err := s.Mend(t.Context()); err != nil || len(mended) != 0 {
			t.Errorf("Mend: %+v, %v", mended, err)
		}
		if err := s.Scrub(t.Context()); err != nil || s.Err() != nil {
			t.Errorf("once more: %v, %v", err, s.Err())
		}
		mustClose(t, s)
		s = mustOpen(t, path, Options{Encryption: e})
		if withKeys {
			wantPods(t, mustCollection(t, s, pods()), 10, nil)
		}
		mustClose(t, s)
	}
}

// TestDataKeysOfANewerProgram are no damage: the file is left alone.
func TestDataKeysOfANewerProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	e := sealing(t, mustKey(t, ""))
	writeSealed(t, path, 10, e)
	s := mustOpen(t, path, Options{})
	changeKeys(t, s, func(data []byte) []byte {
		data[0] = 9
		return seal(string(bucketLarder), string(keyKeys), data)
	})
	if err := s.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSound(t, s)
	mustClose(t, s)
	if s, err := Open(path, Options{Logger: &quiet, Encryption: e}); s != nil || !errors.Is(err, ErrIncompatible) || isDamaged(err) || !strings.Contains(err.Error(), "newer program") {
		t.Errorf("%v", err)
	}
	wantNames(t, filepath.Dir(path), "store")
}

// TestLookUpsWithDataKeysThatAreDamaged: what is filed under their tokens can not be found, and that is not told as nothing; once it has been repaired it is.
func TestLookUpsWithDataKeysThatAreDamaged(t *testing.T) {
	for _, readOnly := range []bool{true, false} {
		e := sealing(t, mustKey(t, ""))
		s := mustOpen(t, mustDamageKeys(t, 10, e), Options{Encryption: e, ReadOnly: readOnly, Logger: &quiet})
		v, err := s.ViewWith(t.Context(), pods(), mustCodec(t, &corev1.Pod{}))
		if err != nil {
			t.Fatal(err)
		}
		if keys, err := v.IndexKeys(t.Context(), cache.NamespaceIndex, "namespace-0"); !isDamaged(err) || !strings.Contains(err.Error(), "which is lost") {
			t.Errorf("for reading %v: %q, %v", readOnly, keys, err)
		}
		if !readOnly {
			if _, err := s.Mend(t.Context()); err != nil {
				t.Fatal(err)
			}
			if keys, err := v.IndexKeys(t.Context(), cache.NamespaceIndex, "namespace-0"); err != nil || len(keys) != 0 {
				t.Errorf("after the repair: %q, %v", keys, err)
			}
		}
		mustClose(t, s)
	}
}

// TestLookUpsAfterAnEndBeforeTheRepair: a process that lost the data keys, and ended before what was sealed with them was repaired, leaves look-ups that find nothing, and
// another process does not take that for nothing either.
func TestLookUpsAfterAnEndBeforeTheRepair(t *testing.T) {
	e := sealing(t, mustKey(t, ""))
	path := mustDamageKeys(t, 10, e)
	mustClose(t, mustOpen(t, path, Options{Encryption: e, Logger: &quiet})) // has another record of them written
	s := mustOpen(t, path, Options{Encryption: e, Logger: &quiet})
	if s.keys.held().lost != nil {
		t.Fatal("the record is still damaged")
	}
	v, err := s.ViewWith(t.Context(), pods(), mustCodec(t, &corev1.Pod{}))
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := v.IndexKeys(t.Context(), cache.NamespaceIndex, "namespace-0"); !isDamaged(err) || !strings.Contains(err.Error(), "which the file does not have") {
		t.Errorf("before the repair: %q, %v", keys, err)
	}
	if _, err := s.Mend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if keys, err := v.IndexKeys(t.Context(), cache.NamespaceIndex, "namespace-0"); err != nil || len(keys) != 0 {
		t.Errorf("after the repair: %q, %v", keys, err)
	}
	mustClose(t, s)
}
