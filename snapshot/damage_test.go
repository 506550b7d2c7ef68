package snapshot_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

var smallBlocks = snapshot.WithBlocks(snapshot.WriterOptions{}, 100)

func small() content {
	large := func(key string) entry.Entry {
		r := rec(key, 0)
		r.Payload = bytes.Repeat([]byte("x"), 100) // compression makes this payload smaller
		return r
	}
	return content{header: snapshot.Header{ClusterID: "c", Larder: "v1.2.3"}, collections: []contentOf{
		{snapshot.Collection{Identity: identityOf("pods"), ResourceVersion: "9", Complete: true},
			[]entry.Entry{large("a/1"), large("a/2"), rec("b/1", 5)}},
		{snapshot.Collection{Identity: identityOf("empty"), ResourceVersion: "9", Complete: true}, nil},
		{snapshot.Collection{Identity: identityOf("nodes"), ResourceVersion: "9", Complete: true},
			[]entry.Entry{rec("n1", 5), rec("n2", 50)}},
	}, documents: []documentOf{
		{"openapi/api/v1", bytes.Repeat([]byte("x"), 100)}, {"server-version", []byte("v1.36.3")},
		{"service-account-keys", nil},
	}}
}

// typed reports whether err is one of the documented errors for a wrong or damaged file.
func typed(err error) bool {
	var d *snapshot.DamageError
	return errors.As(err, &d) || errors.Is(err, snapshot.ErrNotSnapshot) || errors.Is(err, snapshot.ErrNewerFormat)
}

// isPart reports whether all records and documents of got are also in want.
func isPart(got, want content) bool {
	for i, c := range got.collections {
		w := want.collections[i]
		if c.collection.Identity != w.collection.Identity ||
			slices.ContainsFunc(c.records, func(r entry.Entry) bool {
				return !slices.ContainsFunc(w.records, func(o entry.Entry) bool { return sameRecord(o, r) })
			}) {
			return false
		}
	}
	return !slices.ContainsFunc(got.documents, func(d documentOf) bool {
		return !slices.ContainsFunc(want.documents, func(o documentOf) bool { return sameDocument(o, d) })
	})
}

// TestEveryByteFlipped checks that any flipped byte makes Open or a read fail with an error that names the block and
// its offset, and costs no other block.
func TestEveryByteFlipped(t *testing.T) {
	want := small()
	whole := want.bytes(t, smallBlocks)
	for i := range whole {
		data := bytes.Clone(whole)
		data[i] ^= 1 << (i % 8)
		checkDamaged(t, fmt.Sprint("byte ", i), partAt(whole, i), data, want)
	}
}

// checkDamaged reads a snapshot with one damaged part. The error must name the damage and count all missing records.
func checkDamaged(t *testing.T, what string, p part, data []byte, want content) {
	t.Helper()
	got, _, err := readAll(data, snapshot.OpenOptions{})
	if !typed(err) || !isPart(got, want) {
		t.Fatalf("%s: %v", what, err)
	}
	if p.kind == kindDocument { // damage in a document costs only this document
		var d *snapshot.DamageError
		if !errors.As(err, &d) || d.Offset != int64(p.start) || !strings.Contains(err.Error(), strconv.Quote(p.first)) ||
			len(got.documents) != len(want.documents)-1 ||
			!slices.EqualFunc(got.collections, want.collections, func(a, b contentOf) bool {
				return slices.EqualFunc(a.records, b.records, sameRecord)
			}) {
			t.Fatalf("%s: %v", what, err)
		}
		return
	}
	if p.kind != kindBlock && p.kind != kindIndex {
		if len(got.collections) > 0 {
			t.Fatalf("%s: it was opened: %v", what, err)
		}
		return
	}
	var d *snapshot.DamageError
	var missing *snapshot.MissingError
	if !errors.As(err, &missing) || !missing.Exact || len(missing.Damage) != 1 || !errors.As(err, &d) ||
		d.Block != p.number || d.Offset != int64(p.start) {
		t.Fatalf("%s, in block %d at %d: %v", what, p.number, p.start, err)
	}
	for n, c := range got.collections {
		lost, is := len(want.collections[n].records)-len(c.records), c.collection.Identity.String() == missing.Collection
		// A small block has at most 2 records.
		if !is && lost != 0 || is && lost != missing.Objects || p.kind == kindBlock && lost > 2 {
			t.Fatalf("%s: %s: %d records, %v", what, c.collection.Identity, len(c.records), err)
		}
	}
}

func TestEveryTruncation(t *testing.T) {
	whole := small().bytes(t, smallBlocks)
	for n := range whole {
		_, err := snapshot.NewFile(bytes.NewReader(whole[:n]), int64(n), snapshot.OpenOptions{})
		if !typed(err) || n > 40 && !strings.Contains(err.Error(), "it was cut short") {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
}

func TestTrailingData(t *testing.T) {
	data := append(small().bytes(t, smallBlocks), 0)
	if _, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{}); !typed(err) {
		t.Error(err)
	}
}

// TestDamageErrorNamesTheBlock checks that the DamageError of a block names the collection and the block's keys.
func TestDamageErrorNamesTheBlock(t *testing.T) {
	data := small().bytes(t, smallBlocks)
	parts := partsOf(data)
	p := parts[slices.IndexFunc(parts, func(p part) bool { return p.first == "b/1" })]
	data[p.end-1] ^= 1
	f := fileOfBytes(t, data)
	_, _, err := f.Get(t.Context(), identityOf("pods"), "b/1")
	want := fmt.Sprintf("1 object is missing from pods.v1 (unstructured):\n"+
		"  the snapshot is damaged in block 2 at offset %d, "+
		`pods.v1 (unstructured), keys "b/1" to "b/1": it is not what was written (SHA-256)`, p.start)
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if _, ok, err := f.Get(t.Context(), identityOf("pods"), "a/2"); !ok || err != nil {
		t.Errorf("another block: %v", err)
	}
}

// TestReadBetweenLosses checks that the blocks between several damaged ranges are returned.
func TestReadBetweenLosses(t *testing.T) {
	var records []entry.Entry
	for i := range 40 {
		records = append(records, rec(fmt.Sprintf("k%02d", i), blockTarget))
	}
	want := content{collections: []contentOf{{snapshot.Collection{Identity: identityOf("pods"), Complete: true}, records}}}
	whole := want.bytes(t, snapshot.WriterOptions{})
	data := bytes.Clone(whole)
	lost := map[int]bool{}
	for _, i := range []int{len(data) / 5, len(data) / 3, len(data) / 2} {
		clear(data[i : i+3*blockTarget/2])
		for _, p := range partsOf(whole) {
			if p.start < i+3*blockTarget/2 && p.end > i {
				lost[p.number] = true
			}
		}
	}
	f := fileOfBytes(t, data)
	got := map[string]bool{}
	err := f.Records(t.Context(), identityOf("pods"), func(r entry.Entry) error { got[r.Key] = true; return nil })
	var missing *snapshot.MissingError
	if !errors.As(err, &missing) || missing.Objects != len(lost) || !missing.Exact || len(missing.Damage) != len(lost) ||
		len(got) != 40-len(lost) {
		t.Fatalf("%d objects, %d blocks lost: %v", len(got), len(lost), err)
	}
	for _, d := range missing.Damage {
		if d.First == "" || d.First != d.Last || got[d.First] {
			t.Errorf("%+v", d)
		}
		if _, ok, err := f.Get(t.Context(), identityOf("pods"), d.First); ok || !errors.As(err, &missing) ||
			missing.Objects != 1 || !missing.Exact {
			t.Errorf("%q: %v, %v", d.First, ok, err)
		}
	}
}

// TestDamagedIndex checks that the number of missing objects is exact for a collection with a damaged index, and a
// lower bound for a namespace of it.
func TestDamagedIndex(t *testing.T) {
	data := small().bytes(t, smallBlocks)
	parts := partsOf(data)
	data[parts[slices.IndexFunc(parts, func(p part) bool { return p.kind == kindIndex })].start] ^= 1
	f := fileOfBytes(t, data)
	for _, c := range []struct {
		read  func(fn func(entry.Entry) error) error
		n     int
		exact bool
		text  string
	}{
		{func(fn func(entry.Entry) error) error { return f.Records(t.Context(), identityOf("pods"), fn) }, 3, true,
			"3 objects are missing from pods"},
		{func(fn func(entry.Entry) error) error { return f.Namespace(t.Context(), identityOf("pods"), "b", fn) }, 1, false,
			"at least 1 object is missing from pods"},
	} {
		err := c.read(func(entry.Entry) error { t.Error("a record was read"); return nil })
		var missing *snapshot.MissingError
		if !errors.As(err, &missing) || missing.Objects != c.n || missing.Exact != c.exact ||
			!strings.HasPrefix(err.Error(), c.text) {
			t.Errorf("%v", err)
		}
	}
	if err := f.Records(t.Context(), identityOf("nodes"), func(entry.Entry) error { return nil }); err != nil {
		t.Errorf("another collection: %v", err)
	}
}

// TestStreamErrors checks that SaveStream fails and leaves no file if the stream fails, ends early or is damaged.
func TestStreamErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.larder")
	save := func(in io.Reader) error {
		t.Helper()
		_, err := snapshot.SaveStream(t.Context(), in, path, snapshot.SaveOptions{})
		if left, readErr := os.ReadDir(dir); readErr != nil || err != nil && len(left) > 0 {
			t.Fatalf("%v are left, %v", left, readErr)
		}
		return err
	}
	whole := small().bytes(t, smallBlocks)
	for n := 0; n < len(whole); n += 97 {
		if err := save(io.MultiReader(bytes.NewReader(whole[:n]), broken{})); !errors.Is(err, errDisk) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if err := save(bytes.NewReader(whole[:n])); !typed(err) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		data := bytes.Clone(whole)
		data[n] ^= 1
		if err := save(bytes.NewReader(data)); !typed(err) {
			t.Fatalf("byte %d: %v", n, err)
		}
	}
	if err := save(bytes.NewReader(whole)); err != nil {
		t.Fatal(err)
	}
	f, err := snapshot.Open(path, snapshot.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, want := readFile(t, f), small()
	want.header.TakenAt = got.header.TakenAt
	want.check(t, got)
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errDisk }
