package snapshot_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// smallBlocks makes blocks of 100 bytes.
var smallBlocks = snapshot.WithBlocks(snapshot.WriterOptions{}, 100)

// small is a snapshot of a few small blocks in two collections and an empty one.
func small() content {
	large := func(key string) entry.Entry {
		r := rec(key, 0)
		r.Payload = bytes.Repeat([]byte("x"), 100) // it compresses
		return r
	}
	return content{header: snapshot.Header{ClusterID: "c", Larder: "v1.2.3"}, collections: []contentOf{
		{snapshot.Collection{Identity: identityOf("pods"), ResourceVersion: "9", Complete: true},
			[]entry.Entry{large("a/1"), large("a/2"), rec("b/1", 5)}},
		{snapshot.Collection{Identity: identityOf("empty"), ResourceVersion: "9", Complete: true}, nil},
		{snapshot.Collection{Identity: identityOf("nodes"), ResourceVersion: "9", Complete: true},
			[]entry.Entry{rec("n1", 5), rec("n2", 50)}},
	}}
}

// typed says whether err is one that tells what is wrong with a file.
func typed(err error) bool {
	var d *snapshot.DamageError
	return errors.As(err, &d) || errors.Is(err, snapshot.ErrNotSnapshot) || errors.Is(err, snapshot.ErrNewerFormat)
}

// frameAt returns the number and the kind of the frame that byte i of a whole file is in, and where it begins; -1 if it
// is in none.
func frameAt(data []byte, i int) (number int, kind frameKind, start int) {
	for _, at := idOf(data); at < len(data)-footerSize; {
		h := mustFixed(data[at:])
		if at <= i && i < at+h.total() {
			return int(h.number), h.kind, at
		}
		at += h.total()
	}
	return -1, 0, 0
}

// isPrefix says whether the records in got are the first ones of want, collection by collection.
func isPrefix(got, want content) bool {
	if len(got.collections) > len(want.collections) {
		return false
	}
	for i, g := range got.collections {
		w := want.collections[i]
		if g.collection.Identity != w.collection.Identity || len(g.records) > len(w.records) ||
			i < len(got.collections)-1 && len(g.records) != len(w.records) ||
			!slices.EqualFunc(g.records, w.records[:len(g.records)], sameRecord) {
			return false
		}
	}
	return true
}

// Each byte of a file is flipped, and each time: the stream fails with an error that names the block and its place;
// what it returned before is a prefix; Open or its reads fail so too, or return the truth, and of a block that is
// damaged no other is lost.
func TestEveryByteFlipped(t *testing.T) {
	want := small()
	whole := want.bytes(t, smallBlocks)
	for i := range whole {
		data := bytes.Clone(whole)
		data[i] ^= 1 << (i % 8)
		number, kind, start := frameAt(whole, i)
		got, _, err := readAll(bytes.NewReader(data), snapshot.ReaderOptions{})
		if !typed(err) || !isPrefix(got, want) {
			t.Fatalf("byte %d: %v", i, err)
		}
		var d *snapshot.DamageError
		if number >= 0 && (!errors.As(err, &d) || d.Block != number || d.Offset != int64(start)) {
			t.Fatalf("byte %d in block %d at %d: %v", i, number, start, err)
		}
		checkOpenDamaged(t, i, kind, data, want)
	}
}

// checkOpenDamaged opens a damaged file at random: what it returns is true, and what it lacks is what it says.
func checkOpenDamaged(t *testing.T, i int, kind frameKind, data []byte, want content) {
	t.Helper()
	f, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{})
	if err != nil {
		if !typed(err) || kind == kindBlock || kind == kindPage {
			t.Fatalf("byte %d: Open: %v", i, err)
		}
		return
	}
	for n, c := range f.Manifest().Collections {
		var got []entry.Entry
		err := f.Records(t.Context(), c.Identity, "", func(r entry.Entry) error {
			got = append(got, keep(r))
			return nil
		})
		w := want.collections[n].records
		var missing *snapshot.MissingError
		switch {
		case err == nil && !slices.EqualFunc(got, w, sameRecord),
			err != nil && (!errors.As(err, &missing) || !missing.Exact || len(got)+missing.Objects != len(w) ||
				len(missing.Damage) != 1),
			slices.ContainsFunc(got, func(r entry.Entry) bool {
				return !slices.ContainsFunc(w, func(o entry.Entry) bool { return sameRecord(o, r) })
			}),
			kind == kindBlock && len(got) < len(w)-2: // as many as a block has
			t.Fatalf("byte %d: %s: %d records, %v", i, c.Identity, len(got), err)
		}
	}
}

// A file that ends anywhere: the error names the block that it ends in, and what was before it is read.
func TestEveryTruncation(t *testing.T) {
	want := small()
	whole := want.bytes(t, smallBlocks)
	for n := range whole {
		data := whole[:n]
		number, _, start := frameAt(whole, n)
		got, _, err := readAll(bytes.NewReader(data), snapshot.ReaderOptions{})
		if !typed(err) || !isPrefix(got, want) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		var d *snapshot.DamageError
		if number >= 0 && (!errors.As(err, &d) || d.Block != number || d.Offset != int64(start) ||
			!strings.Contains(err.Error(), "the file ends")) {
			t.Fatalf("%d bytes, ends in block %d at %d: %v", n, number, start, err)
		}
		if _, err := snapshot.NewFile(bytes.NewReader(data), int64(n), snapshot.OpenOptions{}); !typed(err) {
			t.Fatalf("%d bytes: Open: %v", n, err)
		}
	}
}

func TestSomethingBehindTheEnd(t *testing.T) {
	data := append(small().bytes(t, smallBlocks), 0)
	if _, _, err := readAll(bytes.NewReader(data), snapshot.ReaderOptions{}); !typed(err) ||
		!strings.Contains(err.Error(), "something follows its end") {
		t.Error(err)
	}
	if _, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{}); !typed(err) {
		t.Error(err)
	}
}

// The error names the collection and the keys of the block.
func TestDamageErrorNamesTheBlock(t *testing.T) {
	want := small()
	data := want.bytes(t, smallBlocks)
	i := bytes.Index(data, []byte("\x03b/1")) // in a block's head
	_, _, start := frameAt(data, i)
	data[start+int(mustFixed(data[start:]).total())-1] ^= 1 // its digest
	_, _, err := readAll(bytes.NewReader(data), snapshot.ReaderOptions{})
	const text = `the snapshot is damaged in block 4 at offset`
	if err == nil || !strings.HasPrefix(err.Error(), text) ||
		!strings.Contains(err.Error(),
			`, pods.v1 (unstructured), keys "b/1" to "b/1": it is not what was written (SHA-256)`) {
		t.Errorf("%v", err)
	}
	f, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = f.Get(t.Context(), identityOf("pods"), "b/1")
	const missing = "1 object is missing from pods.v1 (unstructured):\n  "
	if err == nil || !strings.HasPrefix(err.Error(), missing+text) ||
		!strings.Contains(err.Error(), `keys "b/1" to "b/1"`) {
		t.Errorf("%v", err)
	}
	if _, ok, err := f.Get(t.Context(), identityOf("pods"), "a/2"); !ok || err != nil {
		t.Errorf("another block: %v", err)
	}
}

// Many kinds of damage at once: what is whole between them is read, and what is not is named and counted.
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
		for j := i; j < i+3*blockTarget/2; j += 1000 {
			n, _, _ := frameAt(whole, j)
			lost[n] = true
		}
	}
	f, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	err = f.Records(t.Context(), identityOf("pods"), "", func(r entry.Entry) error { got[r.Key] = true; return nil })
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

// A page of the index that is damaged hides its blocks: of a part of the collection nobody knows how many objects they
// have in it, of all of it they are the rest.
func TestDamagedPage(t *testing.T) {
	want := small()
	whole := want.bytes(t, smallBlocks)
	data := bytes.Clone(whole)
	for i := range whole {
		if _, kind, start := frameAt(whole, i); kind == kindPage {
			data[start+mustFixed(whole[start:]).total()-1] ^= 1
			break
		}
	}
	f, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		read  func(fn func(entry.Entry) error) error
		n     int
		exact bool
		text  string
	}{
		{func(fn func(entry.Entry) error) error { return f.Records(t.Context(), identityOf("pods"), "", fn) }, 3, true,
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
	if err := f.Records(t.Context(), identityOf("nodes"), "", func(entry.Entry) error { return nil }); err != nil {
		t.Errorf("another collection: %v", err)
	}
}

// A stream that fails is not taken for one that ended.
func TestStreamErrors(t *testing.T) {
	data := small().bytes(t, smallBlocks)
	for n := range len(data) {
		_, _, err := readAll(io.MultiReader(bytes.NewReader(data[:n]), broken{}), snapshot.ReaderOptions{})
		if !errors.Is(err, errDisk) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errDisk }
