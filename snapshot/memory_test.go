package snapshot_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// live returns the bytes that are in use now.
func liveBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// peak measures, as often as tick is called for a hundredth of the work, how much more is in use than at the beginning.
type peak struct {
	start, most int64
}

func (p *peak) tick() { p.most = max(p.most, liveBytes()-p.start) }

// A hundred thousand objects, 200 MB, pass through a Writer, a Reader, a File and a Diff of the file with itself, and
// what is in use at any time is a few blocks.
func TestMemoryIsOneBlock(t *testing.T) {
	const size = 2000
	objects := soaked(20_000, 100_000)
	// The tables of a zstd encoder take some MiB; a block of 256 KiB is there unpacked, packed and as a frame.
	const limit = 4 << 20
	runtime.GC() // what the tests before have left in pools goes with the second collection
	p := &peak{start: liveBytes()}
	record := entry.Entry{UID: "u", ResourceVersion: "1", Encoding: "of the future", Payload: payload(1, size)}
	var b bytes.Buffer // what is written to a disk
	b.Grow(150 << 20)
	p.start += int64(b.Cap())
	w := mustWriter(t, &b)
	id := identityOf("pods")
	if err := w.Begin(snapshot.Collection{Identity: id}); err != nil {
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
	if err := errors.Join(w.End(), w.Close()); err != nil {
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
	r, err := snapshot.NewReader(bytes.NewReader(data), snapshot.ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.NextCollection(); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := r.Next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		count()
	}
	r.Close()
	r = nil
	check("read as a stream")
	f, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Records(t.Context(), id, "", func(entry.Entry) error { count(); return nil }); err != nil ||
		n != 2*objects {
		t.Fatal(n, err)
	}
	check("read at random")
	counting := countingSource{f, count}
	if report, err := snapshot.Diff(t.Context(), counting, f, snapshot.DiffOptions{}, nil); err != nil ||
		report.Same != objects {
		t.Fatalf("%+v, %v", report, err)
	}
	check("compared")
	runtime.KeepAlive(b)
}

// countingSource tells of each record.
type countingSource struct {
	*snapshot.File
	count func()
}

func (c countingSource) Records(ctx context.Context, id entry.Identity, after string,
	fn func(entry.Entry) error) error {
	return c.File.Records(ctx, id, after, func(r entry.Entry) error {
		c.count()
		return fn(r)
	})
}

// allocated is how much f allocates in all.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// Files of a few bytes that announce much: they fail, or are read, without allocating more than a block and what comes
// with it.
func TestHostileFilesAllocateLittle(t *testing.T) {
	zeros := encoder().EncodeAll(make([]byte, maxBody), nil)
	bomb := append(binary.BigEndian.AppendUint32(nil, maxBody), zeros...)
	lying := append(binary.BigEndian.AppendUint32(nil, 100), zeros...)
	manifest := func() []byte { return appendSized(appendSized([]byte{'M', 0}, ""), "{}") }
	collection := func() []byte {
		return appendSized(appendSized(append(manifest(), 'C', 0), "\x00"),
			`{"version":"v1","resource":"pods","representation":"typed"}`)
	}
	head := blockHead{count: 1 << 60, first: "a", last: "b"}.append(nil)
	huge := binary.AppendUvarint(nil, 1<<62)
	for name, text := range map[string][]byte{
		"a block that unpacks to zeros":       appendSized(appendSized(append(collection(), 'B', 1), head), bomb),
		"a block that is larger than it says": appendSized(appendSized(append(collection(), 'B', 1), head), lying),
		"a record that is longer than all":    appendSized(appendSized(append(collection(), 'B', 0), head), huge),
		"a page that unpacks to zeros":        appendSized(appendSized(append(collection(), 'X', 1), "\x00"), bomb),
		"a tail that unpacks to zeros": appendSized(appendSized(append(manifest(), 'T', 1), strings.Repeat("d", 32)),
			bomb),
		"a tail with many pages": appendSized(appendSized(append(manifest(), 'T', 0), strings.Repeat("d", 32)),
			append([]byte{60, 100}, huge...)),
		"a manifest that is compressed": appendSized(appendSized([]byte{'M', 1}, ""), bomb),
		"a description of many empty columns": appendSized(appendSized(append(manifest(), 'C', 0), "\x00"),
			`{"version":"v1","resource":"pods","columns":[`+strings.Repeat("{},", 10000)+`{}]}`),
		"a manifest of many brackets": appendSized(appendSized([]byte{'M', 0}, ""), strings.Repeat("[", 100000)),
		"a manifest with deep unknown content": appendSized(appendSized([]byte{'M', 0}, ""),
			`{"x":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+`}`),
	} {
		data := framesOf(text)
		n := allocated(func() { fuzzed(t, data) })
		// It is read in four ways.
		if limit := int64(4 * (maxBody + 4<<20)); n > limit {
			t.Errorf("%s (%d bytes): %d KiB allocated, %d are allowed", name, len(data), n>>10, limit>>10)
		}
	}
	// A frame that announces a large body, and a stream that ends.
	whole := small().bytes(t, smallBlocks)
	id, at := idOf(whole)
	lie := frameHead{id: id, kind: kindBlock, size: maxBody, offset: uint64(at)}.append(nil, nil, nil)
	binary.BigEndian.PutUint32(lie[24:], maxBody)
	data := append(whole[:at:at], lie...)
	if n := allocated(func() {
		if _, _, err := readAll(bytes.NewReader(data), snapshot.ReaderOptions{}); !typed(err) {
			t.Error(err)
		}
	}); n > 1<<20 {
		t.Errorf("%d KiB allocated for a block that is not there", n>>10)
	}
}
