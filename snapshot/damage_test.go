package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/larder-dev/larder/store"
)

// smallBlocks makes blocks of 100 bytes.
var smallBlocks = WriterOptions{block: 100}

// small is a snapshot of a few small blocks in two collections and an empty one.
func small() content {
	large := func(key string) store.Record {
		r := rec(key, 0)
		r.Payload = bytes.Repeat([]byte("x"), 100) // it compresses
		return r
	}
	return content{header: Header{ClusterID: "c", Larder: "v1.2.3"}, collections: []contentOf{
		{Collection{Identity: identityOf("pods"), ResourceVersion: "9", Complete: true}, []store.Record{large("a/1"), large("a/2"), rec("b/1", 5)}},
		{Collection{Identity: identityOf("empty"), ResourceVersion: "9", Complete: true}, nil},
		{Collection{Identity: identityOf("nodes"), ResourceVersion: "9", Complete: true}, []store.Record{rec("n1", 5), rec("n2", 50)}},
	}}
}

// typed says whether err is one that tells what is wrong with a file.
func typed(err error) bool {
	var d *DamageError
	return errors.As(err, &d) || errors.Is(err, ErrNotSnapshot) || errors.Is(err, ErrNewerFormat)
}

// frameAt returns the number and the kind of the frame that byte i of a whole file is in, and where it begins; -1 if it is in none.
func frameAt(data []byte, i int) (number int, kind frameKind, start int) {
	p, at, err := parsePrologue(data, formats())
	if err != nil {
		panic(err)
	}
	for at < len(data)-footerSize {
		h, _, wrong := headOf(data[at:], place{id: p.id, offset: uint64(at), number: -1})
		if wrong != "" {
			panic(wrong)
		}
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
			i < len(got.collections)-1 && len(g.records) != len(w.records) || !slices.EqualFunc(g.records, w.records[:len(g.records)], sameRecord) {
			return false
		}
	}
	return true
}

// Each byte of a file is flipped, and each time: the stream fails with an error that names the block and its place; what it returned before is a prefix; Open or
// its reads fail so too, or return the truth; and Salvage loses that block only.
func TestEveryByteFlipped(t *testing.T) {
	want := small()
	whole := want.bytes(t, smallBlocks)
	for i := range whole {
		data := bytes.Clone(whole)
		data[i] ^= 1 << (i % 8)
		number, kind, start := frameAt(whole, i)
		got, _, err := readAll(bytes.NewReader(data), ReaderOptions{})
		if !typed(err) || !isPrefix(got, want) {
			t.Fatalf("byte %d: %v", i, err)
		}
		var d *DamageError
		if number >= 0 && (!errors.As(err, &d) || d.Block != number || d.Offset != int64(start)) {
			t.Fatalf("byte %d in block %d at %d: %v", i, number, start, err)
		}
		checkOpenDamaged(t, i, data, want)
		if n := damagedBegins(t, data); n >= 0 && kind != kindPage && (kind == kindCollection) != (n == 1) {
			t.Fatalf("byte %d in frame %q: %d collections begin with damage", i, byte(kind), n)
		}
		checkSalvage(t, fmt.Sprint("byte ", i), data, want, func(f *File, r SalvageReport) string {
			switch {
			case len(r.Losses) == 0:
				return "no loss was reported"
			case number >= 0 && (r.Losses[0].Offset != int64(start) || r.Losses[0].Blocks != 1 && kind != kindTail):
				return fmt.Sprintf("loss %+v, want block %d at %d", r.Losses[0], number, start)
			case r.Whole != (kind != kindBlock && kind != kindEnd && kind != kindTail):
				return fmt.Sprintf("frame %q: whole is %v", byte(kind), r.Whole)
			case kind != kindBlock && r.Objects != 5:
				return fmt.Sprintf("%d objects left", r.Objects)
			case kind == kindBlock && (r.Objects >= 5 || r.Objects < 3):
				return fmt.Sprintf("%d objects left", r.Objects)
			}
			return ""
		})
	}
}

// damagedBegins says how many collections begin with what is damaged, or -1 if the file can not be opened.
func damagedBegins(t *testing.T, data []byte) (n int) {
	t.Helper()
	f, err := NewFile(bytes.NewReader(data), int64(len(data)), OpenOptions{})
	if err != nil {
		return -1
	}
	for _, c := range f.Manifest().Collections {
		if err := f.Begin(c.Identity); errors.Is(err, ErrDamaged) {
			n++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// checkOpenDamaged opens a damaged file at random: what it returns without an error is true.
func checkOpenDamaged(t *testing.T, i int, data []byte, want content) {
	t.Helper()
	f, err := NewFile(bytes.NewReader(data), int64(len(data)), OpenOptions{})
	if err != nil {
		if !typed(err) {
			t.Fatalf("byte %d: Open: %v", i, err)
		}
		return
	}
	for n, c := range f.Manifest().Collections {
		var got []store.Record
		err := f.Records(t.Context(), c.Identity, "", func(r store.Record) error {
			got = append(got, keep(r))
			return nil
		})
		w := want.collections[n]
		if err != nil && !typed(err) || err == nil && !slices.EqualFunc(got, w.records, sameRecord) ||
			len(got) > len(w.records) || !slices.EqualFunc(got, w.records[:len(got)], sameRecord) {
			t.Fatalf("byte %d: %s: %d records, %v", i, c.Identity, len(got), err)
		}
	}
}

// checkSalvage salvages a file: every record that it returns is one that was written, and collections that lost any say so.
func checkSalvage(t *testing.T, what string, data []byte, want content, check func(*File, SalvageReport) string) {
	t.Helper()
	f, report, err := Salvage(t.Context(), bytes.NewReader(data), int64(len(data)), OpenOptions{})
	if err != nil {
		if !typed(err) {
			t.Fatalf("%s: Salvage: %v", what, err)
		}
		return
	}
	for _, c := range readFile(t, f).collections {
		n := slices.IndexFunc(want.collections, func(w contentOf) bool { return w.collection.Identity == c.collection.Identity })
		if n < 0 {
			t.Fatalf("%s: collection %s was never written", what, c.collection.Identity)
		}
		w := want.collections[n]
		for _, r := range c.records {
			if !slices.ContainsFunc(w.records, func(o store.Record) bool { return sameRecord(o, r) }) {
				t.Fatalf("%s: record %q was never written", what, r.Key)
			}
		}
		short := len(c.records) < len(w.records)
		if short && (c.collection.Complete || c.collection.MustRelist == "") || c.collection.Objects != len(c.records) {
			t.Fatalf("%s: %+v with %d of %d records", what, c.collection, len(c.records), len(w.records))
		}
	}
	written := 0
	for _, c := range want.collections {
		written += len(c.records)
	}
	if report.Whole && report.Objects != written {
		t.Fatalf("%s: %d of %d objects are all", what, report.Objects, written)
	}
	if wrong := check(f, report); wrong != "" {
		t.Fatalf("%s: %s", what, wrong)
	}
}

// A file that ends anywhere: the error names the block that it ends in, and what was before it is read.
func TestEveryTruncation(t *testing.T) {
	want := small()
	whole := want.bytes(t, smallBlocks)
	for n := range whole {
		data := whole[:n]
		number, _, start := frameAt(whole, n)
		got, _, err := readAll(bytes.NewReader(data), ReaderOptions{})
		if !typed(err) || !isPrefix(got, want) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		var d *DamageError
		if number >= 0 && (!errors.As(err, &d) || d.Block != number || d.Offset != int64(start) || !strings.Contains(err.Error(), "the file ends")) {
			t.Fatalf("%d bytes, ends in block %d at %d: %v", n, number, start, err)
		}
		if _, err := NewFile(bytes.NewReader(data), int64(n), OpenOptions{}); !typed(err) {
			t.Fatalf("%d bytes: Open: %v", n, err)
		}
		records := 0
		for _, c := range got.collections {
			records += len(c.records)
		}
		checkSalvage(t, fmt.Sprint(n, " bytes"), data, want, func(f *File, r SalvageReport) string {
			if r.Objects != records || len(r.Losses) == 0 {
				return fmt.Sprintf("%d objects, where the stream had %d; losses %+v", r.Objects, records, r.Losses)
			}
			return ""
		})
	}
}

func TestSomethingBehindTheEnd(t *testing.T) {
	data := append(small().bytes(t, smallBlocks), 0)
	if _, _, err := readAll(bytes.NewReader(data), ReaderOptions{}); !typed(err) || !strings.Contains(err.Error(), "something follows its end") {
		t.Error(err)
	}
	if _, err := NewFile(bytes.NewReader(data), int64(len(data)), OpenOptions{}); !typed(err) {
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
	_, _, err := readAll(bytes.NewReader(data), ReaderOptions{})
	const text = `the snapshot is damaged in block 4 at offset`
	if err == nil || !strings.HasPrefix(err.Error(), text) || !strings.Contains(err.Error(), `, pods.v1 (unstructured), keys "b/1" to "b/1": it is not what was written (SHA-256)`) {
		t.Errorf("%v", err)
	}
	f, err := NewFile(bytes.NewReader(data), int64(len(data)), OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = f.Get(t.Context(), identityOf("pods"), "b/1")
	if err == nil || !strings.HasPrefix(err.Error(), text) || !strings.Contains(err.Error(), `keys "b/1" to "b/1"`) {
		t.Errorf("%v", err)
	}
	if _, ok, err := f.Get(t.Context(), identityOf("pods"), "a/2"); !ok || err != nil {
		t.Errorf("another block: %v", err)
	}
}

func mustFixed(data []byte) frameHead {
	h, wrong := parseFixed(data)
	if wrong != "" {
		panic(wrong)
	}
	return h
}

// Many kinds of damage at once: what is whole between them is found.
func TestSalvageBetweenLosses(t *testing.T) {
	var records []store.Record
	for i := range 40 {
		records = append(records, rec(fmt.Sprintf("k%02d", i), blockTarget))
	}
	want := content{collections: []contentOf{{Collection{Identity: identityOf("pods"), Complete: true}, records}}}
	whole := want.bytes(t, WriterOptions{})
	data := bytes.Clone(whole)
	lost := map[int]bool{}
	for _, i := range []int{len(data) / 5, len(data) / 3, len(data) / 2} {
		clear(data[i : i+3*blockTarget/2])
		for j := i; j < i+3*blockTarget/2; j += 1000 {
			n, _, _ := frameAt(whole, j)
			lost[n] = true
		}
	}
	checkSalvage(t, "gaps", data, want, func(f *File, r SalvageReport) string {
		blocks := 0
		for _, l := range r.Losses {
			if l.Collection != "pods.v1 (unstructured)" {
				return fmt.Sprintf("loss %+v", l)
			}
			blocks += l.Blocks
		}
		if len(r.Losses) != 3 || blocks != len(lost) || r.Objects != 40-len(lost) {
			return fmt.Sprintf("%d objects, %d blocks lost, want %d; %+v", r.Objects, blocks, len(lost), r.Losses)
		}
		return ""
	})
}

// What looks like a frame inside of an object is not taken for one when a block before it is damaged.
func TestSalvageIsNotFooledByContent(t *testing.T) {
	inner := content{collections: []contentOf{{Collection{Identity: identityOf("secrets")}, []store.Record{rec("planted", 5)}}}}.bytes(t, smallBlocks)
	r := rec("a", 0)
	r.Payload = append(payload(1, 2000), inner...)
	want := content{collections: []contentOf{{Collection{Identity: identityOf("configmaps")}, []store.Record{r, rec("b", 1)}}}}
	data := want.bytes(t, smallBlocks)
	if !bytes.Contains(data, inner[:50]) {
		t.Fatal("the inner snapshot was compressed, so this test shows nothing")
	}
	at := bytes.Index(data, []byte(marker+string(data[len(magic)+4:len(magic)+4+idSize])+"B"))
	data[at+20] ^= 1
	checkSalvage(t, "a snapshot in an object", data, want, func(f *File, r SalvageReport) string {
		if r.Objects != 1 || r.Collections != 1 {
			return fmt.Sprintf("%+v", r)
		}
		return ""
	})
}

// Blocks whose description was lost at the beginning are found by the one at the end, and those that lost both are reported.
func TestSalvageWithoutDescription(t *testing.T) {
	want := small()
	whole := want.bytes(t, smallBlocks)
	breaks := func(data []byte, kinds ...frameKind) {
		for i := 0; i < len(whole); {
			number, kind, start := frameAt(whole, i)
			if number < 0 {
				i++
				continue
			}
			h := mustFixed(whole[start:])
			if slices.Contains(kinds, kind) && bytes.Equal(whole[start+fixedSize:][:h.headSize], []byte{0}) { // of the first collection
				data[start+fixedSize+5] ^= 1
			}
			i = start + h.total()
		}
	}
	data := bytes.Clone(whole)
	breaks(data, kindCollection)
	checkSalvage(t, "begin", data, want, func(f *File, r SalvageReport) string {
		if c := f.Manifest().Collections[0]; r.Objects != 5 || c.Objects != 3 || !c.Complete {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
	data = bytes.Clone(whole)
	breaks(data, kindCollection, kindEnd)
	checkSalvage(t, "both", data, want, func(f *File, r SalvageReport) string {
		if r.Objects != 2 || r.Collections != 2 || !slices.ContainsFunc(r.Losses, func(l Loss) bool {
			return l.Reason == "what collection it is of is lost" && l.Blocks == 3 && l.First == "a/1" && l.Last == "b/1"
		}) {
			return fmt.Sprintf("%+v", r)
		}
		return ""
	})
}

// A stream that fails is not taken for one that ended.
func TestStreamErrors(t *testing.T) {
	data := small().bytes(t, smallBlocks)
	for n := range len(data) {
		_, _, err := readAll(io.MultiReader(bytes.NewReader(data[:n]), broken{}), ReaderOptions{})
		if !errors.Is(err, errDisk) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errDisk }
