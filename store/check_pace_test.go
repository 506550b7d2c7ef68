package store_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/store"
)

// TestScrubRate checks that the rate limit of a Scrub counts records and index entries.
func TestScrubRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, many, _ := filled(t, store.AtOnce(store.Options{}))
		mustUpdate(t, many)
		size, _, err := s.Size()
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := s.Scrub(t.Context()); err != nil {
			t.Fatal(err)
		}
		const rate = 64 << 20
		least := 2 * 10 * 1000 * 1000 * time.Second / rate
		if took := time.Since(begun); took < least || took > 3*time.Duration(size)*time.Second/rate {
			t.Errorf("it took %v for %d bytes", took, size)
		}
		mustClose(t, s)
	})
}
