package store

import (
	"testing"
	"testing/synctest"
	"time"
)

// A check that is held to a rate takes its time for pages, records and index entries.
func TestCheckIsHeldToARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := filled(t, Options{CommitInterval: -1})
		size, _, err := s.Size()
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if r, err := s.check(t.Context(), &pace{rate: 10 << 10}); err != nil || len(r.Problems) > 0 {
			t.Fatalf("%v, %q", err, r.Problems)
		}
		records := time.Duration(1200*300/(10<<10)) * time.Second
		if took := time.Since(begun); took < records || took > 3*time.Duration(size/(10<<10))*time.Second {
			t.Errorf("it took %v for %d bytes", took, size)
		}
		mustClose(t, s)
	})
}
