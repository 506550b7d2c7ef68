package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// TestScrubDuringRebuild checks that damage that Scrub finds in the old file does not fail the rebuilt store.
func TestScrubDuringRebuild(t *testing.T) {
	for name, damage := range map[string]func(leaf []byte, body int){
		"a page":   func(leaf []byte, _ int) { leaf[0] ^= 1 },
		"a record": func(leaf []byte, body int) { leaf[body] ^= 1 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { scrubDuringRebuild(t, damage) })
		})
	}
}

func scrubDuringRebuild(t *testing.T, damage func(leaf []byte, body int)) {
	s, err := store.Open(filepath.Join(t.TempDir(), "larder.db"), byHand())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	c := listed(t, s)
	damageLeaf(t, s.Path(), "a/0300", damage)
	scrubbed := make(chan error, 1)
	go func() { scrubbed <- s.Scrub(t.Context()) }()
	rebuilds := 0
	for round := 0; ; round++ {
		synctest.Wait()
		if s.Err() != nil {
			if err := s.Rebuild(t.Context()); err != nil {
				t.Fatal(err)
			}
			rebuilds++
		}
		select {
		case err := <-scrubbed:
			if !errors.Is(err, entry.ErrDamaged) {
				t.Errorf("the Scrub: %v", err)
			}
			wantRebuilt(t, s, rebuilds, c.Losses())
			return
		default:
		}
		// By now the Scrub has passed the damaged record, so only a reader can find the damage in the old file.
		if round == 45 {
			_, err := c.Refs(t.Context(), "a/0299", 1)
			t.Logf("a reader: %v", err)
			continue
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func wantRebuilt(t *testing.T, s *store.Store, rebuilds, losses int) {
	t.Helper()
	aside, err := filepath.Glob(s.Path() + ".damaged-*")
	if err != nil || len(aside) != 1 || rebuilds != 1 || losses != 1 {
		t.Errorf("%d rebuilds and %d losses for one damage, %q, %v", rebuilds, losses, aside, err)
	}
	if s.Err() != nil {
		t.Errorf("the new file is charged with %v", s.Err())
	}
	if r, err := s.Check(t.Context()); err != nil || len(r.Problems) > 0 {
		t.Errorf("the new file: %q, %v", r.Problems, err)
	}
}

// damageLeaf calls damage with each leaf page of the file that contains the record of key.
func damageLeaf(t *testing.T, path, key string, damage func(leaf []byte, body int)) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const pageSize, leaves = 4 << 10, 2
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found := false
	for at := 0; at < len(data); at += pageSize {
		isLeaf := int(binary.NativeEndian.Uint64(data[at:])) == at/pageSize &&
			binary.NativeEndian.Uint16(data[at+8:]) == leaves
		span := pageSize * (1 + int(binary.NativeEndian.Uint32(data[at+12:])))
		if !isLeaf || at+span > len(data) {
			continue
		}
		leaf := data[at : at+span]
		name := bytes.Index(leaf, []byte(key))
		if name < 0 {
			continue
		}
		if body := bytes.Index(leaf[name:], []byte("xxxx")); body >= 0 {
			damage(leaf, name+body)
			if _, err := f.WriteAt(leaf, int64(at)); err != nil {
				t.Fatal(err)
			}
			found = true
		}
	}
	if !found {
		t.Fatalf("no leaf has %s", key)
	}
}
