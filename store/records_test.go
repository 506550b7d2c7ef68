package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

func mustRecords(t *testing.T, s *store.Store, id entry.Identity) (all []entry.Entry) {
	t.Helper()
	err := s.Records(t.Context(), id, "", func(r entry.Entry) error {
		all = append(all, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func wantRecords(t *testing.T, records []entry.Entry, n int) {
	t.Helper()
	if len(records) != n {
		t.Fatalf("%d records, want %d", len(records), n)
	}
	codec := mustCodec(t, &corev1.Pod{})
	last := ""
	for _, r := range records {
		if r.Key <= last {
			t.Fatalf("%s after %s", r.Key, last)
		}
		last = r.Key
		obj, err := codec.Decode(r.Payload)
		if err != nil || r.Encoding != codec.Name() {
			t.Fatalf("%s: encoding %s, %v", r.Key, r.Encoding, err)
		}
		p := obj.(*corev1.Pod)
		if p.Namespace+"/"+p.Name != r.Key || string(p.UID) != r.UID || p.ResourceVersion != r.ResourceVersion {
			t.Fatalf("%+v is %s/%s %s %s", r, p.Namespace, p.Name, p.UID, p.ResourceVersion)
		}
	}
}

func TestRecords(t *testing.T) {
	s, many, _ := filled(t, store.AtOnce(store.Options{}))
	all := mustRecords(t, s, many.Identity())
	wantRecords(t, all, 1000)

	var rest []entry.Entry
	after := all[617].Key
	if err := s.Records(t.Context(), many.Identity(), after,
		func(r entry.Entry) error { rest = append(rest, r); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(rest) != 1000-618 || rest[0].Key != all[618].Key {
		t.Errorf("after the 618th: %d records, the first is %s", len(rest), rest[0].Key)
	}
	// The callback may use the store: Records holds neither a transaction nor a lock while it runs.
	stop, n := errors.New("enough"), 0
	err := s.Records(t.Context(), many.Identity(), "", func(entry.Entry) error {
		if _, err := many.Apply(t.Context(), entry.Batch{ResourceVersion: "9000",
			Ops: []entry.Op{{Object: somePod(n)}}}); err != nil {
			return err
		}
		if n++; n == 3 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || n != 3 {
		t.Errorf("%d records, %v", n, err)
	}
	none := pods()
	none.Namespace = "none"
	if err := s.Records(t.Context(), none, "", nil); !errors.Is(err, store.ErrNoCollection) {
		t.Errorf("no collection: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n = 0
	err = s.Records(ctx, many.Identity(), "", func(entry.Entry) error { n++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || n != 1 {
		t.Errorf("cancelled: %d records, %v", n, err)
	}
}

func TestRecordsOfACompressedCollection(t *testing.T) {
	s := mustOpen(t, t.TempDir()+"/store", store.AtOnce(store.Options{}))
	c := openCompressed(t, s, store.Zstd)
	mustList(t, c, 1000)
	if _, packed, _ := compressionOf(t, c); packed < 500 {
		t.Fatalf("%d of 1000 records are compressed", packed)
	}
	wantRecords(t, mustRecords(t, s, pods()), 1000)
}

// TestRecordsOfADamagedCollection checks that reading can continue after the key that the error names.
func TestRecordsOfADamagedCollection(t *testing.T) {
	s, many, _ := filled(t, store.AtOnce(store.Options{}))
	keys := objectKeys(t, many)
	bad := []string{keys[0], keys[499], keys[500], keys[700], keys[999]}
	err := tamperWith(many, func(b *bolt.Bucket) error {
		objects := b.Bucket(disk.Objects)
		for _, key := range bad {
			data := slices.Clone(objects.Get([]byte(key)))
			data[len(data)-3] ^= 1
			if err := objects.Put([]byte(key), data); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var got, failed []string
	after := ""
	for {
		err := s.Records(t.Context(), many.Identity(), after,
			func(r entry.Entry) error { got = append(got, r.Key); return nil })
		var record *entry.RecordError
		if !errors.As(err, &record) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if !errors.Is(err, entry.ErrDamaged) {
			t.Errorf("%v is no damage", err)
		}
		failed, after = append(failed, record.Key), record.Key
	}
	if !slices.Equal(failed, bad) || len(got) != 995 {
		t.Errorf("%q were reported, and %d read", failed, len(got))
	}
}

func objectKeys(t *testing.T, c *store.Collection) []string {
	t.Helper()
	keys, err := c.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return keys
}
