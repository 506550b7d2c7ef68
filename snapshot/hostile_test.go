package snapshot_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// appendBlock appends a block of one record, with a payload.
func appendBlock(data []byte, id fileID, number uint32, key string, payload []byte) []byte {
	r := entry.Entry{Key: key, UID: "u", Encoding: encodingMsgpack, Payload: payload}
	body := appendRecord(nil, r)
	h := frameHead{id: id, kind: kindBlock, number: number, size: uint32(len(body)), offset: uint64(len(data))}
	return h.append(data, blockHead{count: 1, first: key, last: key}.append(nil), body)
}

// part is a frame in the text of framesOf.
func part[B string | []byte](kind frameKind, flags byte, head string, body B) []byte {
	return appendSized(appendSized([]byte{byte(kind), flags}, head), body)
}

const podsText = `{"version":"v1","resource":"pods","representation":"unstructured"`

// blockPart is a block of records with those keys, as its head should name them.
func blockPart(collection uint64, keys ...string) []byte {
	var body []byte
	for _, key := range keys {
		body = appendRecord(body, entry.Entry{Key: key, UID: "u", Encoding: encodingMsgpack, Payload: []byte("\x80")})
	}
	return part(kindBlock, 0,
		string(blockHead{collection: collection, count: uint64(len(keys)), first: keys[0],
			last: keys[len(keys)-1]}.append(nil)), body)
}

// markedPart is a block of one record.
func markedPart(r entry.Entry) []byte {
	r.Key = "a"
	return part(kindBlock, 0, string(blockHead{count: 1, first: r.Key, last: r.Key}.append(nil)), appendRecord(nil, r))
}

// Files whose checksums are all right and whose content was made to deceive: each way to read them says what is wrong,
// or that the file is damaged where it does not come to that.
func TestHostileFiles(t *testing.T) {
	text := func(parts ...[]byte) []byte {
		return bytes.Join(append([][]byte{part(kindManifest, 0, "", "{}")}, parts...), nil)
	}
	begin, end := part(kindCollection, 0, "\x00", podsText+"}"),
		func(counts string) []byte { return part(kindEnd, 0, "\x00", podsText+counts+"}") }
	page, tail := part(kindPage, 0, "\x00", ""), part(kindTail, 0, "", "")
	zeros := encoder().EncodeAll(make([]byte, maxBody), nil)
	more := encoder().EncodeAll(make([]byte, 2*maxBody), nil)
	one := string(blockHead{count: 1, first: "a", last: "a"}.append(nil))
	sized := func(size uint32, stored []byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, size), stored...)
	}
	long := strings.Repeat("x", maxMark+1)
	pair := appendRecord(appendRecord(nil, entry.Entry{Key: "a", UID: "u"}), entry.Entry{Key: "b", UID: "u"})
	three := string(blockHead{count: 3, first: "a", last: "b"}.append(nil))
	const counts = `,"objects":2,"bytes":2,"blocks":1`
	for name, c := range map[string]struct {
		text   []byte
		stream string // what the stream says
		open   string // what reading at random says
	}{
		"nothing wrong": {text(begin, blockPart(0, "a", "b"), page, end(counts), tail), "", ""},
		"keys in reverse": {text(begin, blockPart(0, "b", "a"), page, end(counts), tail), "its keys are not in order",
			"the keys in this page of the index are not in order"},
		"a key twice": {text(begin, blockPart(0, "a", "a"), page, end(counts), tail), "its keys are not in order",
			"its keys are not in order"},
		"an empty key": {text(begin, blockPart(0, "", "a"), page, end(counts), tail), "its keys are not in order",
			"its keys are not in order"},
		"a key in two blocks": {text(begin, blockPart(0, "a"), blockPart(0, "a"), page, end(counts), tail),
			"its keys are not in order", "the keys in this page of the index are not in order"},
		"a long key": {text(begin, blockPart(0, "a", strings.Repeat("k", maxKey+1)), page, end(counts), tail),
			"a key of 32769 bytes is longer than the 32768 that are allowed", "a key of 32769 bytes"},
		"a long UID": {text(begin, markedPart(entry.Entry{UID: long}), page, end(counts), tail),
			"a UID, resourceVersion or encoding of 1025 bytes is longer than the 1024 that are allowed", "of 1025 bytes"},
		"a long resourceVersion": {text(begin, markedPart(entry.Entry{ResourceVersion: long}), page, end(counts), tail),
			"of 1025 bytes", "of 1025 bytes"},
		"a long encoding": {text(begin, markedPart(entry.Entry{Encoding: long}), page, end(counts), tail),
			"of 1025 bytes", "of 1025 bytes"},
		"a block of another": {text(begin, blockPart(7, "a", "b"), page, end(counts), tail),
			"it is of another collection", "it is not the block that the index names"},
		"a collection twice": {text(begin, blockPart(0, "a", "b"), page, end(counts),
			part(kindCollection, 0, "\x01", podsText+"}"), part(kindEnd, 0, "\x01", podsText+"}"), tail), "is there twice",
			"where another collection should be"},
		"fewer objects than it says": {text(begin, blockPart(0, "a"), page, end(counts), tail),
			"the collection should have 2 objects in 1 blocks, and has 1 in 1", ""},
		"more objects than it says": {
			text(begin, blockPart(0, "a", "b"), page, end(`,"objects":1,"bytes":2,"blocks":1`), tail),
			"the collection should have 1 objects in 1 blocks, and has 2 in 1", ""},
		"more bytes than it says": {
			text(begin, blockPart(0, "a", "b"), page, end(`,"objects":2,"bytes":1,"blocks":1`), tail),
			"the collection should have 2 objects in 1 blocks, and has 2 in 1", ""},
		"fewer records than the head names": {
			text(begin, part(kindBlock, 0, three, pair), page, end(counts), tail),
			"its records are not those that its head names", "its records are not those that its head names"},
		"the index of another": {
			text(begin, blockPart(0, "a", "b"), page, end(counts), part(kindTail, 0, "", "x")),
			"the index is not that of the collections before it", "the index cannot be read"},
		"negative counts": {text(begin, end(`,"objects":-1`), tail),
			"its counts of objects, bytes and blocks cannot be", "its counts of objects, bytes and blocks cannot be"},
		"counts that overflow a sum": {text(begin, end(`,"objects":9223372036854775807,"blocks":1`), tail),
			"its counts of objects, bytes and blocks cannot be", "its counts of objects, bytes and blocks cannot be"},
		"counts that overflow": {text(begin, end(`,"objects":99999999999999999999`), tail),
			"the collection's description cannot be read", "the collection's description cannot be read"},
		"counts that are no integers": {text(begin, end(`,"blocks":1e30`), tail),
			"the collection's description cannot be read", "the collection's description cannot be read"},
		"a bomb": {text(begin, part(kindBlock, flagZstd, one, sized(maxBody, zeros)), page, end(counts),
			tail), "its keys are not in order", "its keys are not in order"},
		"a bomb that lies": {text(begin, part(kindBlock, flagZstd, one, sized(1000, zeros)), page, end(counts),
			tail), "its body cannot be unpacked", "its body cannot be unpacked"},
		"a bomb that is too large": {text(begin, part(kindBlock, flagZstd, one, sized(1000, more)), page, end(counts),
			tail), "its body cannot be unpacked", "its body cannot be unpacked"},
		"gigabytes": {text(begin, part(kindBlock, flagZstd, one, sized(math.MaxUint32, zeros)), page,
			end(counts), tail), "its body of 4294967295 bytes", "larger than the 16777216 that are allowed"},
		"zeros that are no zstd": {text(begin, part(kindBlock, flagZstd, one, sized(1000, make([]byte, 100))), page,
			end(counts), tail), "its body cannot be unpacked", "its body cannot be unpacked"},
		"a page that names no blocks": {text(begin, part(kindPage, 0, "\x00", "\x00"), end(""), tail),
			"this page of the index is not that of the blocks before it", "this page of the index cannot be read"},
		"a tail that ends": {text(begin, end(""), part(kindTail, 0, strings.Repeat("d", digestSize), "\x1c")),
			"the digest over the whole", "the index cannot be read"},
		"a tail that names itself": {text(begin, end(""),
			part(kindTail, 0, strings.Repeat("d", digestSize), span{offset: 250, length: 1 << 20}.append(nil))),
			"the digest over the whole", "the index cannot be read"},
		"a frame of no kind": {text(begin, part('Z', 0, "", "")), "in the middle of a collection",
			"and the index says"},
		"no representation there is": {text(part(kindCollection, 0, "\x00",
			`{"version":"v1","resource":"pods","representation":"x"}`), end(""), tail),
			"the collection's description cannot be read", ""},
		"a selector that is none": {text(part(kindCollection, 0, "\x00", podsText+`,"labelSelector":"a in ("}`), end(""),
			tail), "the collection's description cannot be read", ""},
		"a description of another one": {text(begin, blockPart(0, "a", "b"), page,
			part(kindEnd, 0, "\x00", strings.Replace(podsText, "pods", "nodes", 1)+counts+"}"), tail),
			"it is the end of nodes.v1", ""},
	} {
		data := framesOf(c.text)
		_, _, streamErr := readAll(bytes.NewReader(data), snapshot.ReaderOptions{})
		for how, got := range map[string]struct {
			err  error
			want string
		}{"the stream": {streamErr, c.stream}, "at random": {readAtRandom(t, data), c.open}} {
			if got.want == "" && got.err != nil || got.want != "" &&
				(!typed(got.err) || !strings.Contains(got.err.Error(), got.want)) {
				t.Errorf("%s, %s: %v, want %q", name, how, got.err, got.want)
			}
		}
		fuzzed(t, data)
	}
}

// readAtRandom opens a snapshot and reads all that is in it.
func readAtRandom(t *testing.T, data []byte) error {
	t.Helper()
	f, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{})
	if err != nil {
		return err
	}
	for _, c := range f.Manifest().Collections {
		if err := f.Records(t.Context(), c.Identity, "", func(entry.Entry) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// Keys and names that would mean something to a shell, a terminal or a file system are bytes and nothing else: they
// come out as they went in.
func TestKeysAreBytes(t *testing.T) {
	keys := []string{"", "\x00", "../../etc/passwd", "/", "a/../b", "a\nb", "\x1b[2J", "\xff\xfe", "..", "CON"}
	slices.Sort(keys)
	of := contentOf{collection: snapshot.Collection{Identity: identityOf("pods")}}
	for _, key := range keys[1:] { // the empty one is refused
		of.records = append(of.records, rec(key, 10))
	}
	want := content{collections: []contentOf{of}}
	data := want.bytes(t, smallBlocks)
	got, _, err := readAll(bytes.NewReader(data), snapshot.ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want.check(t, got)
	f, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if r, ok, err := f.Get(t.Context(), of.collection.Identity, key); err != nil || ok != (key != "") || r.Key != key {
			t.Errorf("%q: %+v, %v, %v", key, r, ok, err)
		}
	}
}

// An index whose pages and entries are in order of keys, and name blocks that lie in one another.
func TestIndexOfBlocksInOneAnother(t *testing.T) {
	framer := framer{id: fileID{1}, all: sha256.New()}
	framer.out = prologue{version: formatNow, id: framer.id, larder: "x"}.append(nil)
	framer.all.Write(framer.out)
	framer.frame(kindManifest, 0, nil, []byte("{}"))
	framer.frame(kindCollection, 0, []byte{0}, []byte(podsText+"}"))
	first := len(framer.out)
	at := bytes.Index(appendBlock(framer.out[:first:first], framer.id, 2, "a", bytes.Repeat([]byte("?"), 200)),
		[]byte("????"))
	inner := appendBlock(make([]byte, at), framer.id, 3, "b", []byte("\x80"))[at:]
	framer.out = appendBlock(framer.out, framer.id, 2, "a", append(inner, bytes.Repeat([]byte("?"), 200-len(inner))...))
	framer.number++
	names := func(key string, at, end int) []byte {
		digest := [digestSize]byte(framer.out[end-digestSize:])
		return indexEntry{first: key, last: key, span: span{uint64(at), uint64(end - at)}, count: 1,
			digest: digest}.append(nil)
	}
	body := append(names("a", first, len(framer.out)), names("b", at, at+len(inner))...)
	framer.first = "a"
	framer.frame(kindPage, 0, []byte{0}, body)
	framer.frame(kindEnd, 0, []byte{0}, []byte(podsText+`,"objects":2,"bytes":201,"blocks":2}`))
	framer.frame(kindTail, 0, nil, nil)
	data := footer{framer.at, framer.id}.append(framer.out)
	if err := readAtRandom(t, data); !typed(err) ||
		!strings.Contains(err.Error(), "are not one behind the other before it") {
		t.Error(err)
	}
}

// Pages of the index whose entries are not the blocks that are where they say.
func TestIndexOfOtherBlocks(t *testing.T) {
	for name, change := range map[string]func(e *indexEntry){
		"nothing":                    func(*indexEntry) {},
		"a block of another digest":  func(e *indexEntry) { e.digest[0]++ },
		"a block of more records":    func(e *indexEntry) { e.count++ },
		"a block that ends later":    func(e *indexEntry) { e.last = "c" },
		"a block that begins sooner": func(e *indexEntry) { e.first = "A" },
	} {
		framer := framer{id: fileID{1}, all: sha256.New()}
		framer.out = prologue{version: formatNow, id: framer.id, larder: "x"}.append(nil)
		framer.all.Write(framer.out)
		framer.frame(kindManifest, 0, nil, []byte("{}"))
		framer.frame(kindCollection, 0, []byte{0}, []byte(podsText+"}"))
		body := appendRecord(nil, entry.Entry{Key: "a", UID: "u", Encoding: encodingMsgpack, Payload: []byte("\x80")})
		framer.frame(kindBlock, 0, blockHead{count: 1, first: "a", last: "a"}.append(nil), body)
		e := indexEntry{first: "a", last: "a", span: framer.at, count: 1}
		copy(e.digest[:], framer.out[len(framer.out)-digestSize:])
		change(&e)
		framer.first = e.first
		framer.frame(kindPage, 0, []byte{0}, e.append(nil))
		framer.frame(kindEnd, 0, []byte{0}, []byte(podsText+`,"objects":1,"bytes":1,"blocks":1}`))
		framer.frame(kindTail, 0, nil, nil)
		err := readAtRandom(t, footer{framer.at, framer.id}.append(framer.out))
		wrong := name != "nothing"
		if wrong != (err != nil) || wrong &&
			(!typed(err) || !strings.Contains(err.Error(), "not the block that the index names")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
