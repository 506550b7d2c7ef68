package store

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// A write that is tried again and again is one sample for the dictionary, not as many as there are attempts.
func TestWritesThatFailAreSampledOnce(t *testing.T) {
	noSpace := func() error { return syscall.ENOSPC }
	var list Replacement
	begin := func(t *testing.T, c *Collection) {
		var err error
		if list, err = c.BeginReplace(t.Context(), ReplaceOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	page := []runtime.Object{somePod(0)}
	for name, test := range map[string]struct {
		interval time.Duration
		before   func(t *testing.T, c *Collection)
		try      func(t *testing.T, c *Collection) error
	}{
		"Commit": {time.Hour, func(t *testing.T, c *Collection) {
			if err := applyPod(t, c, podAt(0, "2000")); err != nil {
				t.Fatal(err)
			}
		}, func(t *testing.T, c *Collection) error { return c.store.Flush(t.Context()) }},
		"Apply": {-1, func(*testing.T, *Collection) {}, func(t *testing.T, c *Collection) error { return applyPod(t, c, podAt(0, "2000")) }},
		"ColdPage": {time.Hour, begin, func(t *testing.T, _ *Collection) error {
			_, err := list.Page(t.Context(), page)
			return err
		}},
		"WarmList": {time.Hour, func(t *testing.T, c *Collection) {
			c.reported.Store(true)
			begin(t, c)
			if _, err := list.Page(t.Context(), page); err != nil {
				t.Fatal(err)
			}
		}, func(t *testing.T, _ *Collection) error {
			_, err := list.Commit(t.Context(), Batch{ResourceVersion: "2000"})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, t.TempDir()+"/store", Options{CommitInterval: test.interval})
			g := GateCommits(s)
			c := openPacked(t, s, Zstd)
			test.before(t, c)
			g.Fail(noSpace)
			for range 10 {
				if err := test.try(t, c); !errors.Is(err, ErrNoSpace) {
					t.Fatal(err)
				}
			}
			g.Fail(nil)
			if err := test.try(t, c); err != nil {
				t.Fatal(err)
			}
			if n := len(c.packer.gathered); n != 1 || c.packer.using() != nil {
				t.Errorf("%d samples; a dictionary: %t", n, c.packer.using() != nil)
			}
			mustClose(t, s)
		})
	}
}

// Products of counts and sizes are larger than an int of 32 bits holds.
func TestPackerCountsBeyond32Bits(t *testing.T) {
	p := newPacker(Zstd)
	payloads := make([][]byte, 100_000)
	small := make([]byte, 100)
	for i := range payloads {
		payloads[i] = small
	}
	k := p.parts(payloads)
	if want := dictionaryBytes/100 + 1; k != want {
		t.Errorf("%d parts, want %d", k, want)
	}
	for _, halves := range []int{0, 1} {
		last := -1
		for _, at := range spread(2_000_000, 2000, halves) {
			if at <= last || at >= 2_000_000 {
				t.Fatalf("%d after %d", at, last)
			}
			last = at
		}
	}
}
