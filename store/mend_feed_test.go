package store

import (
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// A repair in place that loses an object sets the handlers of its collection back, since nobody knows whether it will come back or is deleted. Those of others
// stay where they were.
func TestMendAndTheFeed(t *testing.T) {
	s, many, few := filled(t, Options{CommitInterval: -1})
	lost, kept := mustFeed(t, many, "lost"), mustFeed(t, few, "kept")
	other := mustFeed(t, many, "not registered") // its place is in the file only
	mustDelete(t, few, 7)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	other.Close()
	spoil(t, many, "namespace-0/pod-0000")
	if mended, err := s.Mend(t.Context()); err != nil || len(mended) != 1 {
		t.Fatalf("%+v, %v", mended, err)
	}
	again, err := many.Feed(t.Context(), "not registered")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []*Feed{lost, again} {
		if place, _, err := f.Place(); err != nil || !place.Replaying || place.Why != ResetDamage {
			t.Errorf("a handler of the collection that lost an object is at %+v, %v", place, err)
		}
	}
	if place, resets, err := kept.Place(); err != nil || place.Replaying || resets != 0 {
		t.Errorf("the other one is at %+v, %d resets, %v", place, resets, err)
	}
	if got := unread(t, kept); !slices.Equal(got, []string{"-namespace-2/pod-0007"}) {
		t.Errorf("it has not acknowledged %q", got)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSound(t, s)
}

// Entries of the feed that do not fit the records are put right, and the handlers stay where they were.
func TestMendOfTheFeed(t *testing.T) {
	s, _, few := filled(t, Options{CommitInterval: -1})
	f := mustFeed(t, few, "h")
	if _, err := few.Apply(t.Context(), Batch{Ops: []Op{{Object: somePod(1)}, {Object: somePod(2)}}, ResourceVersion: "4999"}); err != nil {
		t.Fatal(err)
	}
	want := unread(t, f)
	if len(want) != 2 {
		t.Fatalf("not acknowledged: %q", want)
	}
	err := Tamper(few, func(b *bolt.Bucket) error {
		seqs := b.Bucket(bucketSeq)
		k, v := seqs.Cursor().Last()
		k, v = slices.Clone(k), slices.Clone(v)
		if err := seqs.Delete(k); err != nil { // a record without a number
			return err
		}
		return seqs.Put(seqKey(5), v) // and one under another number
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Scrub(t.Context()); !isDamaged(err) {
		t.Fatal(err)
	}
	if _, err := s.Mend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := unread(t, f); !slices.Equal(got, want) {
		t.Errorf("not acknowledged: %q, want %q", got, want)
	}
	if place, resets, err := f.Place(); err != nil || place.Replaying || resets != 0 {
		t.Errorf("the handler is at %+v, %d resets, %v", place, resets, err)
	}
	wantSound(t, s)
}
