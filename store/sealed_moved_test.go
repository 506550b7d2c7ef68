package store_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

// TestSealedRecordOfAnotherCollection checks that a sealed record copied to another collection, under the same key and
// with a correct checksum, is detected as damage.
func TestSealedRecordOfAnotherCollection(t *testing.T) {
	const key = "namespace-0/pod-0000"
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{Encryption: sealing(t, mustKey(t, ""))})
	c, other := mustCollection(t, s, pods()), mustCollection(t, s, otherPods())
	mustList(t, c, 20)
	mustList(t, other, 20)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var record []byte
	mustView(t, other, func(b *bolt.Bucket) { record = bytes.Clone(b.Bucket(disk.Objects).Get([]byte(key))) })
	if r, err := disk.ParseRecord(record); err != nil || r.UID != string(somePod(0).UID) || r.SealedBy == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	tamper(t, s, func(b *bolt.Bucket) error { return b.Bucket(disk.Objects).Put([]byte(key), reseal(key, record)) })
	if obj, err := c.Get(t.Context(), key); obj != nil || !isDamaged(err) {
		t.Errorf("Get: %v, %v", obj, err)
	}
}

// TestTokensHideValues checks that equal index values have equal tokens (keyed hashes) within an index, and different
// tokens in different indexes or collections.
func TestTokensHideValues(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{Encryption: sealing(t, mustKey(t, ""))})
	fn := func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Annotations["value"]}, nil }
	const idLen, hashLen = 8, 32 // lengths of a token's parts: the data key's id, and the keyed hash
	seen := map[string]string{}
	for name, id := range map[string]func() (*store.Collection, error){
		"pods": func() (*store.Collection, error) {
			return s.Collection(t.Context(), pods(), store.CollectionOptions{
				Codec: mustCodec(t, &corev1.Pod{}), Indexers: cache.Indexers{"one": fn, "two": fn},
			})
		},
		"other pods": func() (*store.Collection, error) {
			return s.Collection(t.Context(), otherPods(), store.CollectionOptions{
				Codec: mustCodec(t, &corev1.Pod{}), Indexers: cache.Indexers{"one": fn},
			})
		},
	} {
		c, err := id()
		if err != nil {
			t.Fatal(err)
		}
		b := entry.Batch{ResourceVersion: "9"}
		for i := range 2 {
			p := somePod(i)
			p.Annotations["value"] = "the same"
			b.Ops = append(b.Ops, entry.Op{Object: p})
		}
		if _, err := c.Apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		err = viewOf(c, func(b *bolt.Bucket) error {
			return b.Bucket(disk.Index).ForEachBucket(func(index []byte) error {
				return disk.Each(b.Bucket(disk.Index).Bucket(index), func(k, _ []byte) error {
					token, _, err := disk.ParseIndexEntry(k)
					if err != nil || len(token) < idLen+hashLen {
						return errors.Join(err, errors.New("no token"))
					}
					hash, in := token[idLen:idLen+hashLen], name+" by "+string(index)
					if also, found := seen[hash]; found && also != in {
						t.Errorf("%s and %s have the same value, as anybody can see", also, in)
					}
					seen[hash] = in
					return nil
				})
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 3 {
		t.Errorf("%d values in 3 indexes that have one each", len(seen))
	}
}

func mustView(t *testing.T, c *store.Collection, fn func(b *bolt.Bucket)) {
	t.Helper()
	err := viewOf(c, func(b *bolt.Bucket) error {
		fn(b)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
