package crypt

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/larder-dev/larder/internal/sample"
	"github.com/larder-dev/larder/store/internal/format"
)

func sampleDictionary() *Dictionary {
	return NewDictionary([]byte(strings.Repeat(sample.PodJSON, 2)))
}

func TestDictionaryRoundTrip(t *testing.T) {
	d := sampleDictionary()
	for _, payload := range [][]byte{[]byte(sample.PodJSON), []byte(sample.PodJSON[:100]),
		bytes.Repeat([]byte{0}, 3<<20)} {
		compressed := d.compress(payload)
		if compressed == nil || len(compressed) >= len(payload)/2 {
			t.Fatalf("%d bytes became %d", len(payload), len(compressed))
		}
		for _, buf := range [][]byte{nil, make([]byte, 10), make([]byte, 0, 8<<20)} {
			got, err := d.Decompress(buf, compressed, len(payload))
			if err != nil || !bytes.Equal(got, payload) {
				t.Fatalf("%d bytes came back as %d, %v", len(payload), len(got), err)
			}
		}
		// Compression must be deterministic, so that equal objects have equal records.
		if again := NewDictionary(d.Content).compress(payload); !bytes.Equal(again, compressed) {
			t.Error("it was compressed otherwise the second time")
		}
	}
	if d.compress(nil) != nil || d.compress([]byte{1, 2, 3}) != nil {
		t.Error("what does not shrink was compressed")
	}
}

// TestDecompressBoundsMemory checks that the size in the record's header bounds the allocation, whatever the frame
// says.
func TestDecompressBoundsMemory(t *testing.T) {
	d := sampleDictionary()
	bomb := d.compress(make([]byte, 32<<20))
	var stream bytes.Buffer
	w, err := zstd.NewWriter(&stream) // Frames of a streaming encoder do not contain the decompressed size.
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 32<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for what, compressed := range map[string][]byte{"a frame with a size": bomb, "one without": stream.Bytes(),
		"two": append(bytes.Clone(d.compress(make([]byte, 900))), bomb...)} {
		if got, err := d.Decompress(nil, compressed, 1000); err == nil {
			t.Errorf("%s: %d bytes, %v", what, len(got), err)
		}
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 8<<20 {
		t.Errorf("%d bytes were allocated", after.TotalAlloc-before.TotalAlloc)
	}
	if _, err := d.Decompress(nil, bomb, 32<<20+1); err == nil {
		t.Error("fewer bytes than the header says were accepted")
	}
	if d.compress(make([]byte, format.MaxDecompressed+1)) != nil {
		t.Error("a payload was compressed that is too long to be read")
	}
}

func FuzzDecompress(f *testing.F) {
	d := sampleDictionary()
	f.Add(d.compress([]byte(sample.PodJSON)), len(sample.PodJSON))
	f.Add(d.compress(make([]byte, 1<<20)), 5)
	f.Add([]byte{}, 1)
	f.Fuzz(func(t *testing.T, compressed []byte, size int) {
		size = max(1, size%(1<<20))
		got, err := d.Decompress(nil, compressed, size)
		if err == nil && len(got) != size {
			t.Fatalf("%d bytes, want %d", len(got), size)
		}
	})
}
