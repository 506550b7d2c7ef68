package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// TestForgetHandlerOfAFullFile checks that ForgetCursor removes the tombstones that only this durable handler needed,
// even from a file that is too full for any other write.
func TestForgetHandlerOfAFullFile(t *testing.T) {
	ctx := context.Background()
	o := byHand()
	o = store.AtOnce(o)
	o.MaxSize = 12 << 20
	s := storetest.Open(t, o)
	store.NoSync(s)
	c := openPodsIn(t, s, "a")
	f := cursorOf(t, c, "h")
	catchUp(t, f)
	pod := func(n int) entry.Op {
		return upsert(fmt.Sprintf("a/%05d", n), "1", storetest.ColorLabel, strings.Repeat("x", 12_000))
	}
	put := func(n int) (full bool) {
		_, err := c.Apply(ctx, entry.Batch{Ops: []entry.Op{pod(n)}, ResourceVersion: "1"})
		if err != nil && !errors.Is(err, store.ErrNoSpace) {
			t.Fatal(err)
		}
		return err != nil
	}
	n := 0
	for ; !put(n); n++ {
		gone := pod(n)
		gone.Type = entry.Delete
		if _, err := c.Apply(ctx, entry.Batch{Ops: []entry.Op{gone}, ResourceVersion: "1"}); err != nil {
			if errors.Is(err, store.ErrNoSpace) {
				break
			}
			t.Fatal(err)
		}
	}
	for n++; !put(n); n++ {
	}
	f.Close()
	if err := c.ForgetCursor(ctx, "h"); err != nil {
		t.Fatalf("of a file that is full of tombstones: %v", err)
	}
	if put(n + 1) {
		t.Error("it is still full")
	}
}

// TestTombstonesOfAFullFile checks that a file full of tombstones has space once handlers have acknowledged the
// deletes.
func TestTombstonesOfAFullFile(t *testing.T) {
	o := byHand()
	o.CommitInterval, o.MaxSize = 1<<40, 12<<20
	s := storetest.Open(t, o)
	store.NoSync(s)
	c := openPodsIn(t, s, "a")
	f := cursorOf(t, c, "h")
	pod := func(n int) entry.Op {
		return upsert(fmt.Sprintf("a/%05d", n), "1", storetest.ColorLabel, strings.Repeat("x", 3000))
	}
	var err error
	for n := 0; err == nil; n += 10 {
		for i := range 10 {
			apply(t, c, "1", pod(n+i))
		}
		if err = s.Flush(context.Background()); err != nil {
			break
		}
		for i := range 10 {
			gone := pod(n + i)
			gone.Type = entry.Delete
			apply(t, c, "1", gone)
		}
		err = s.Flush(context.Background())
	}
	if !errors.Is(err, store.ErrNoSpace) {
		t.Fatal(err)
	}
	catchUp(t, f)
	for range 5 {
		if err = s.Flush(context.Background()); err == nil {
			break
		}
	}
	if err != nil {
		t.Errorf("the handler has passed all tombstones, and the file is full for ever: %v", err)
	}
	sound(t, s)
}
