package store_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// byHand returns options for a store that commits only when a test calls Flush or Close.
func byHand() store.Options {
	return store.Options{CommitInterval: time.Hour, CommitBytes: 1 << 30, Logger: &quiet}
}

func flush(t *testing.T, s *store.Store) {
	t.Helper()
	if err := s.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// hang starts a commit and blocks it. The returned function lets the commit continue and returns its error.
func hang(t *testing.T, s *store.Store, g *hook.Gate) (finish func() error) {
	t.Helper()
	entered, release := g.Hold()
	flushed := make(chan error, 1)
	go func() { flushed <- s.Flush(context.Background()) }()
	select {
	case <-entered:
	case err := <-flushed:
		release()
		t.Fatalf("nothing was committed: %v", err)
	}
	done := false
	finish = func() error {
		if done {
			return nil
		}
		done = true
		release()
		return <-flushed
	}
	t.Cleanup(func() { _ = finish() })
	return finish
}

// TestUncommittedBytes checks that Store.Pending returns to zero after any sequence of operations.
func TestUncommittedBytes(t *testing.T) {
	s := storetest.Open(t, byHand())
	store.NoSync(s)
	g := store.GateCommits(s)
	rapid.Check(t, func(rt *rapid.T) {
		c := openPods(t, s, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		defer c.Close()
		rv, finish, added := 0, func() error { return nil }, false
		rt.Repeat(map[string]func(*rapid.T){
			"apply": func(rt *rapid.T) {
				for range rapid.IntRange(1, 3).Draw(rt, "ops") {
					rv++
					key := fmt.Sprintf("%c/x", 'a'+rune(rapid.IntRange(0, 4).Draw(rt, "key")))
					op := upsert(key, strconv.Itoa(rv), storetest.ColorLabel,
						rapid.SampledFrom([]string{"", "red", "red.green"}).Draw(rt, "color"))
					if rapid.IntRange(0, 3).Draw(rt, "delete") == 0 {
						op = remove(key, strconv.Itoa(rv))
					}
					apply(t, c, strconv.Itoa(rv), op)
				}
				if s.Pending() <= 0 {
					rt.Fatalf("%d bytes are pending", s.Pending())
				}
			},
			"hang": func(rt *rapid.T) {
				if err := finish(); err != nil {
					rt.Fatal(err)
				}
				if s.Pending() > 0 {
					finish = hang(t, s, g)
				}
			},
			"index": func(rt *rapid.T) {
				if err := finish(); err != nil {
					rt.Fatal(err)
				}
				if !added {
					added = true
					if err := c.AddIndexers(context.Background(), cache.Indexers{"color": storetest.ByColor}, nil); err != nil {
						rt.Fatal(err)
					}
				}
			},
			"": func(rt *rapid.T) {
				if s.Pending() < 0 {
					rt.Fatalf("%d bytes are pending", s.Pending())
				}
			},
		})
		if err := finish(); err != nil {
			rt.Fatal(err)
		}
		flush(t, s)
		if n := s.Pending(); n != 0 {
			rt.Fatalf("%d bytes are pending after a flush", n)
		}
	})
}

// TestManyUpdatesAreWrittenOnce checks that fifty updates of an object cost little more I/O than one update.
func TestManyUpdatesAreWrittenOnce(t *testing.T) {
	written := func(updates int) (bytes int64, seq uint64) {
		s := storetest.Open(t, byHand())
		c := openPods(t, s, byNamespaceAndColor)
		before := s.Written()
		for i := range updates {
			rv := strconv.Itoa(i + 1)
			pod := storetest.Pod("a/x", "u", rv, storetest.ColorLabel, "c"+rv)
			pod.Status.Message = fmt.Sprint(slices.Repeat([]int{i}, 1000))
			apply(t, c, rv, entry.Op{Object: pod})
		}
		if s.Written() != before {
			t.Errorf("%d bytes were written before the commit", s.Written()-before)
		}
		flush(t, s)
		seq, terms, err := storedHeader(c, "a/x")
		if err != nil || !slices.Equal(terms["color"], []string{"c" + strconv.Itoa(updates)}) {
			t.Errorf("terms %v, %v", terms, err)
		}
		if info := infoOf(t, c); info.NextSeq != 2 || info.Objects != 1 || info.ResourceVersion != strconv.Itoa(updates) {
			t.Errorf("info %+v", info)
		}
		obj, err := c.Get(context.Background(), "a/x")
		if pod, ok := obj.(*corev1.Pod); err != nil || !ok || pod.ResourceVersion != strconv.Itoa(updates) {
			t.Errorf("%v, %v", obj, err)
		}
		return s.Written() - before, seq
	}
	once, seq1 := written(1)
	fifty, seq50 := written(50)
	if seq1 != 1 || seq50 != 1 || fifty > once+8192 {
		t.Errorf("1 update: %d bytes, seq %d; 50: %d bytes, seq %d", once, seq1, fifty, seq50)
	}
}

// TestUpdatesDuringACommit checks that a commit writes only the objects that changed during the previous commit.
func TestUpdatesDuringACommit(t *testing.T) {
	s := storetest.Open(t, byHand())
	g := store.GateCommits(s)
	c := openPods(t, s, byNamespaceAndColor)
	apply(t, c, "2", upsert("a/x", "1"), upsert("a/y", "2"))
	finish := hang(t, s, g)
	apply(t, c, "3", upsert("a/x", "3"))
	apply(t, c, "4", upsert("a/x", "4"))
	if err := finish(); err != nil {
		t.Fatal(err)
	}
	if info := infoOf(t, c); info.NextSeq != 3 || info.ResourceVersion != "4" {
		t.Errorf("after the first commit: %+v", info)
	}
	flush(t, s)
	if info := infoOf(t, c); info.NextSeq != 4 || s.Pending() != 0 {
		t.Errorf("after the second: %+v, %d bytes pending", info, s.Pending())
	}
	wantStrings(t, "what is stored", list(t, c), "a/x uid=uid-a/x rv=4", "a/y uid=uid-a/y rv=2")
}
