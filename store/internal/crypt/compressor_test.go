package crypt

import "testing"

// TestDictionaryCountsBeyond32Bits checks that products of counts and sizes do not overflow a 32-bit int.
func TestDictionaryCountsBeyond32Bits(t *testing.T) {
	c := NewCompressor()
	payloads := make([][]byte, 100_000)
	small := make([]byte, 100)
	for i := range payloads {
		payloads[i] = small
	}
	k := c.parts(payloads)
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
