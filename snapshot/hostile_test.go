package snapshot_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

const (
	podsText  = `{"version":"v1","resource":"pods","representation":"unstructured"`
	podCounts = `,"objects":2,"bytes":2,"blocks":1`
)

func keysOf(keys ...string) rawBlock {
	var all []entry.Entry
	for _, key := range keys {
		all = append(all, entry.Entry{Key: key, UID: "u", Encoding: encodingMsgpack, Payload: []byte("\x80")})
	}
	return rawOf(all...)
}

// ofBlocks returns a forged file with one collection of pods. counts are the collection's numbers in the catalog.
func ofBlocks(counts string, blocks ...rawBlock) rawFile {
	return rawFile{collections: []rawCollection{{text: podsText + counts, blocks: blocks}}}
}

// described returns a forged file whose catalog has this text as the description of a collection without blocks.
func described(text string) rawFile { return rawFile{collections: []rawCollection{{text: text}}} }

// TestHostileFiles checks that forged files with valid checksums are refused with the reason.
func TestHostileFiles(t *testing.T) {
	documented := func(change func(size, stored *int64, digest *[digestSize]byte)) rawFile {
		return rawFile{documents: []rawDocument{{name: "d", size: 4, stored: []byte("data"), change: change}}}
	}
	zeros := encoder().EncodeAll(make([]byte, maxPart), nil)
	more := encoder().EncodeAll(make([]byte, 2*maxPart), nil)
	packed := func(size uint64, stored []byte) rawFile {
		return ofBlocks(podCounts, rawBlock{first: "a", last: "b", count: 2, size: size, stored: stored})
	}
	changed := func(change func(b *rawBlock, digest *[digestSize]byte)) rawFile {
		b := keysOf("a", "b")
		b.change = change
		return ofBlocks(podCounts, b)
	}
	part := func(change func(stored, index *int64, digest *[digestSize]byte)) rawFile {
		f := ofBlocks(podCounts, keysOf("a", "b"))
		f.collections[0].change = change
		return f
	}
	long := strings.Repeat("x", maxMark+1)
	marked := func(r entry.Entry) rawFile {
		r.Key = "a"
		return ofBlocks(`,"objects":1,"blocks":1`, rawOf(r))
	}
	const unread, counts = "its catalog cannot be read", "its counts of objects, bytes and blocks cannot be"
	for name, c := range map[string]struct {
		file rawFile
		want string
	}{
		"nothing wrong":   {ofBlocks(podCounts, keysOf("a", "b")), ""},
		"keys in reverse": {ofBlocks(podCounts, keysOf("b", "a")), "the keys in it are not in order"},
		"a key twice":     {ofBlocks(podCounts, keysOf("a", "a")), "its keys are not in order"},
		"keys in disorder": {ofBlocks(`,"objects":4,"bytes":4,"blocks":1`, keysOf("a", "c", "b", "d")),
			"its keys are not in order"},
		"an empty key": {ofBlocks(podCounts, keysOf("", "a")), "the keys in it are not in order"},
		"a key in two blocks": {ofBlocks(`,"objects":2,"bytes":2,"blocks":2`, keysOf("a"), keysOf("a")),
			"the keys in it are not in order"},
		"a long key": {ofBlocks(podCounts, keysOf("a", strings.Repeat("k", maxKey+1))),
			"a key of 32769 bytes is longer than the 32768 that are allowed"},
		"a long UID": {marked(entry.Entry{UID: long}),
			"a UID, resourceVersion or encoding of 1025 bytes is longer than the 1024 that are allowed"},
		"a long resourceVersion":     {marked(entry.Entry{ResourceVersion: long}), "of 1025 bytes"},
		"a long encoding":            {marked(entry.Entry{Encoding: long}), "of 1025 bytes"},
		"fewer objects than it says": {ofBlocks(podCounts, keysOf("a")), "it has 1 objects, and the catalog says 2"},
		"more objects than it says": {ofBlocks(`,"objects":1,"bytes":2,"blocks":1`, keysOf("a", "b")),
			"it has 2 objects, and the catalog says 1"},
		"more blocks than it says": {ofBlocks(podCounts, keysOf("a"), keysOf("b")),
			"another number of blocks than the catalog"},
		"a block of another digest": {changed(func(_ *rawBlock, d *[digestSize]byte) { d[0]++ }),
			"it is not what was written (SHA-256)"},
		"a block of more records": {changed(func(b *rawBlock, _ *[digestSize]byte) { b.count++ }),
			"its records are not those that the index names"},
		"a block that ends later": {changed(func(b *rawBlock, _ *[digestSize]byte) { b.last = "c" }),
			"its records are not those that the index names"},
		"a block that begins sooner": {changed(func(b *rawBlock, _ *[digestSize]byte) { b.first = "A" }),
			"its records are not those that the index names"},
		"a block of no records": {changed(func(b *rawBlock, _ *[digestSize]byte) { b.count = 0 }),
			"it names a block that cannot be"},

		"a block that is longer": {changed(func(b *rawBlock, _ *[digestSize]byte) { b.stored = append(b.stored, 0); b.size++ }),
			"it names a block that cannot be"},
		"a block that is shorter": {changed(func(b *rawBlock, _ *[digestSize]byte) { b.stored = b.stored[1:]; b.size-- }),
			"its blocks are not those before it"},
		"blocks beyond the file": {part(func(stored, _ *int64, _ *[digestSize]byte) { *stored = math.MaxInt64 }),
			"is not within the file"},
		"an index beyond the file": {part(func(_, index *int64, _ *[digestSize]byte) { *index = maxPart }),
			"is not within the file"},
		"an index that is too large": {part(func(_, index *int64, _ *[digestSize]byte) { *index = maxPart + 1 }), counts},
		"an index of another digest": {part(func(_, _ *int64, d *[digestSize]byte) { d[0]++ }),
			"its index is not what was written (SHA-256)"},
		"negative places": {part(func(stored, _ *int64, _ *[digestSize]byte) { *stored = -1 }), counts},
		"an index that begins sooner": {part(func(stored, index *int64, _ *[digestSize]byte) { *stored--; *index++ }),
			"(SHA-256)"},
		"something between": {part(func(_, index *int64, _ *[digestSize]byte) { *index-- }),
			"that it does not name"},
		"an index that is none": {rawFile{collections: []rawCollection{{text: podsText + podCounts, index: []byte("???")}}},
			"its index is wrong: it cannot be read"},
		"a collection twice": {rawFile{collections: []rawCollection{{text: podsText}, {text: podsText}}},
			"is there twice"},
		"negative counts":             {described(podsText + `,"objects":-1`), counts},
		"counts that overflow a sum":  {described(podsText + `,"objects":9223372036854775807,"blocks":1`), counts},
		"counts that overflow":        {described(podsText + `,"objects":99999999999999999999`), unread},
		"counts that are no integers": {described(podsText + `,"blocks":1e30`), unread},
		"a bomb":                      {packed(maxPart, zeros), "its keys are not in order"},
		"a bomb that lies":            {packed(uint64(len(zeros))+1, zeros), "it cannot be decompressed"},
		"a bomb that is too large":    {packed(maxPart, more), "it cannot be decompressed"},
		"gigabytes":                   {packed(math.MaxInt32, zeros), "it names a block that cannot be"},
		"more than that":              {packed(math.MaxInt32+1, zeros), "its index is wrong: it cannot be read"},
		"zeros that are no zstd":      {packed(1000, make([]byte, 100)), "it cannot be decompressed"},
		"no representation there is":  {described(`{"version":"v1","resource":"pods","representation":"x"`), unread},
		"a selector that is none":     {described(podsText + `,"labelSelector":"a in ("`), unread},
		"a catalog that is none":      {rawFile{catalog: "secret"}, unread},
		"a catalog of another digest": {rawFile{change: func(f *rawFooter) { f.digest[0]++ }},
			"its catalog is not what was written"},
		"a catalog in the prologue": {rawFile{change: func(f *rawFooter) { f.catalog, f.length = 0, f.length+uint32(f.catalog) }},
			"cut short"},
		"a catalog elsewhere":  {rawFile{change: func(f *rawFooter) { f.catalog-- }}, "cut short"},
		"a catalog beyond all": {rawFile{change: func(f *rawFooter) { f.catalog = math.MaxUint64 }}, "cut short"},
		"a document":           {documented(func(_, _ *int64, _ *[digestSize]byte) {}), ""},
		"a document of another digest": {documented(func(_, _ *int64, d *[digestSize]byte) { d[0]++ }),
			`the document "d" is not what was written (SHA-256)`},
		"a document that is shorter": {documented(func(size, stored *int64, _ *[digestSize]byte) { *size--; *stored-- }),
			"that it does not name"},
		"a document beyond the file": {documented(func(size, stored *int64, _ *[digestSize]byte) { *size++; *stored++ }),
			"the document d is not within the file"},
		"a document of a negative size": {documented(func(_, stored *int64, _ *[digestSize]byte) { *stored = -1 }),
			"is not within the file"},
		"a document that is too large": {documented(func(size, _ *int64, _ *[digestSize]byte) { *size = maxPart + 1 }),
			"is not within the file"},
		"a document that grows by compression": {documented(func(size, _ *int64, _ *[digestSize]byte) { *size-- }),
			"is not within the file"},
		"a document that is no zstd": {documented(func(size, _ *int64, _ *[digestSize]byte) { *size++ }),
			`the document "d" cannot be decompressed`},
		"a document of a size that overflows": {rawFile{catalog: `{"documents":[{"name":"secret","size":99999999999999999999}]}`},
			unread},
		"a document without a name": {rawFile{documents: []rawDocument{{}}}, "a document has no name, or one that another has"},
		"a document twice":          {rawFile{documents: []rawDocument{{name: "d"}, {name: "d"}}}, "or one that another has"},
		"a document that is a bomb": {rawFile{documents: []rawDocument{{name: "d", size: len(zeros) + 1, stored: zeros}}},
			"cannot be decompressed"},
		"a document that is a larger bomb": {rawFile{documents: []rawDocument{{name: "d", size: maxPart, stored: more}}},
			"cannot be decompressed"},
		"a footer of another file": {rawFile{change: func(f *rawFooter) { f.id[0]++ }}, "cut short"},
	} {
		data := c.file.bytes()
		_, _, err := readAll(data, snapshot.OpenOptions{})
		if c.want == "" && err != nil || c.want != "" && (!typed(err) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the contents are in the error: %v", name, err)
		}
		fuzzed(t, data)
	}
}

// TestKeysAreBytes checks that snapshots keep keys that are special to a shell, a terminal or a file system.
func TestKeysAreBytes(t *testing.T) {
	keys := []string{"", "\x00", "../../etc/passwd", "/", "a/../b", "a\nb", "\x1b[2J", "\xff\xfe", "..", "CON"}
	slices.Sort(keys)
	of := contentOf{collection: snapshot.Collection{Identity: identityOf("pods")}}
	for _, key := range keys[1:] { // the first key is empty, which the format does not allow
		of.records = append(of.records, rec(key, 10))
	}
	want := content{collections: []contentOf{of}}
	f := fileOfBytes(t, want.bytes(t, smallBlocks))
	want.check(t, readFile(t, f))
	for _, key := range keys {
		if r, ok, err := f.Get(t.Context(), of.collection.Identity, key); err != nil || ok != (key != "") || r.Key != key {
			t.Errorf("%q: %+v, %v, %v", key, r, ok, err)
		}
	}
}
