package snapshot_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/diff"
)

func liveBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// peak measures how far the live heap has grown since the start, at each call of tick.
type peak struct {
	start, most int64
}

func (p *peak) tick() { p.most = max(p.most, liveBytes()-p.start) }

// TestMemoryIsOneBlock checks that a writer, a File and diff.Compare hold only a few blocks in memory, for a snapshot
// of 40 MB (in make soak 200 MB).
func TestMemoryIsOneBlock(t *testing.T) {
	const size = 2000
	objects := soaked(20_000, 100_000)
	// A zstd encoder has tables of some MiB. A block of 256 KiB is in memory twice, plain and compressed.
	const limit = 4 << 20
	runtime.GC() // a second collection also empties the pools of earlier tests
	p := &peak{start: liveBytes()}
	record := entry.Entry{UID: "u", ResourceVersion: "1", Encoding: "of the future", Payload: payload(1, size)}
	var b bytes.Buffer
	b.Grow(150 << 20)
	p.start += int64(b.Cap())
	w := mustWriter(t, &b)
	id := identityOf("pods")
	if err := w.Begin(id); err != nil {
		t.Fatal(err)
	}
	for i := range objects {
		record.Key = fmt.Sprintf("ns-%03d/pod-%06d", i/1000, i)
		binary.LittleEndian.PutUint64(record.Payload[i%(size-8):], uint64(i))
		if err := w.Add(record); err != nil {
			t.Fatal(err)
		}
		if i%(objects/20) == 0 {
			p.tick()
		}
	}
	_, err := w.End(snapshot.Collection{Identity: id})
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	w = nil
	check := func(what string) {
		t.Helper()
		if p.most > limit {
			t.Errorf("%s: %d KiB in use, %d are allowed", what, p.most>>10, limit>>10)
		}
		if p.most <= 0 {
			t.Errorf("%s: nothing was measured", what)
		}
		t.Logf("%s: %d KiB in use", what, p.most>>10)
		p.most = 0
	}
	check("written")
	data := b.Bytes()
	n := 0
	count := func() {
		if n++; n%(objects/20) == 1 {
			p.tick()
		}
	}
	f, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Records(t.Context(), id, func(entry.Entry) error { count(); return nil }); err != nil ||
		n != objects {
		t.Fatal(n, err)
	}
	check("read")
	counting := countingSource{f, count}
	if report, err := diff.Compare(t.Context(), counting, f, diff.Options{}, nil); err != nil ||
		report.Same != objects {
		t.Fatalf("%+v, %v", report, err)
	}
	check("compared")
	runtime.KeepAlive(b)
}

type countingSource struct {
	*snapshot.File
	count func()
}

func (c countingSource) Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error {
	return c.File.Records(ctx, id, func(r entry.Entry) error {
		c.count()
		return fn(r)
	})
}

func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestHostileFilesAllocateLittle checks that a small file that announces large parts makes readers allocate little.
func TestHostileFilesAllocateLittle(t *testing.T) {
	zeros := encoder().EncodeAll(make([]byte, maxPart), nil)
	packed := func(size uint64, stored []byte) rawFile {
		return ofBlocks(podCounts, rawBlock{first: "a", last: "b", count: 2, size: size, stored: stored})
	}
	announced := func(stored, index int64) rawFile {
		f := ofBlocks(podCounts, keysOf("a", "b"))
		f.collections[0].change = func(s, i *int64, _ *[digestSize]byte) { *s, *i = stored, index }
		return f
	}
	for name, file := range map[string]rawFile{
		"a block that unpacks to zeros":       packed(maxPart, zeros),
		"a block that is larger than it says": packed(uint64(len(zeros))+100, zeros),
		"a record that is longer than all":    packed(9, binary.AppendUvarint(nil, 1<<62)),
		"blocks that are not there":           announced(1<<60, 100),
		"an index that is not there":          announced(0, maxPart),
		"a catalog that is not there":         {change: func(f *rawFooter) { f.length = maxPart }},
		"a description of many empty columns": described(podsText + `,"columns":[` + strings.Repeat("{},", 10000) + `{}]`),
		"a catalog of many brackets":          {catalog: strings.Repeat("[", 100000)},
		"a catalog with deep unknown content": {catalog: `{"x":` +
			strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`},
		"a catalog of many empty descriptions": {catalog: `{"collections":[` + strings.Repeat("{},", 10000) + `{}]}`},
	} {
		data := file.bytes()
		n := allocated(func() { fuzzed(t, data) })
		// The function fuzzed reads the file several times.
		if limit := int64(4 * (maxPart + 4<<20)); n > limit {
			t.Errorf("%s (%d bytes): %d KiB allocated, %d are allowed", name, len(data), n>>10, limit>>10)
		}
	}
}
