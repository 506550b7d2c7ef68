package snapshot_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/snapshot"
)

// The reader in this file follows README.md alone: it uses no code of package snapshot.

type specFile struct {
	header      map[string]any
	collections []specCollection
	documents   []documentOf
	digest      [32]byte
	signature   string
}

type specCollection struct {
	description map[string]any
	blocks      [][]byte // uncompressed blocks of records
	records     []specRecord
}

type specRecord struct {
	key, uid, rv, encoding string
	payload                []byte
}

func must(ok bool, format string, args ...any) {
	if !ok {
		panic(fmt.Sprintf(format, args...))
	}
}

func specUvarint(b *[]byte) int {
	v, n := binary.Uvarint(*b)
	must(n > 0 && v < math.MaxInt32, "uvarint")
	*b = (*b)[n:]
	return int(v)
}

func specText(b *[]byte) string {
	n := specUvarint(b)
	must(n <= len(*b), "text")
	s := string((*b)[:n])
	*b = (*b)[n:]
	return s
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func readSpec(data []byte) (f specFile) {
	must(string(data[:8]) == "\x89LARDER\n" && binary.BigEndian.Uint32(data[8:]) == 1, "magic, version")
	id := data[12:20]
	at := 21 + int(data[20])
	must(crc32.Checksum(data[:at], castagnoli) == binary.BigEndian.Uint32(data[at:]), "CRC of the prologue")
	at += 4
	foot := data[len(data)-64:]
	must(string(foot[56:]) == "\nREDRAL\x89" && bytes.Equal(foot[12:20], id) &&
		crc32.Checksum(foot[:52], castagnoli) == binary.BigEndian.Uint32(foot[52:]), "footer")
	catalog := data[binary.BigEndian.Uint64(foot) : len(data)-64]
	size := int(binary.BigEndian.Uint32(foot[8:]))
	must(size <= len(catalog), "length of the catalog")
	catalog, f.signature = catalog[:size], string(catalog[size:])
	f.digest = sha256.Sum256(catalog)
	must(bytes.Equal(f.digest[:], foot[20:52]), "digest of the catalog")
	var c struct {
		Header      map[string]any
		Collections []map[string]any
		Documents   []struct {
			Name         string
			Size, Stored int
			Digest       []byte
		}
	}
	must(json.Unmarshal(catalog, &c) == nil, "JSON")
	f.header = c.Header
	for _, description := range c.Collections {
		number := func(name string) int { n, _ := description[name].(float64); return int(n) }
		index := data[at+number("stored"):][:number("index")]
		digest := sha256.Sum256(index)
		must(base64.StdEncoding.EncodeToString(digest[:]) == description["indexDigest"], "digest of an index")
		one := specCollection{description: description}
		at = one.read(data, at, index) + len(index)
		sum := 0
		for _, r := range one.records {
			sum += len(r.payload)
		}
		must(len(one.records) == number("objects") && sum == number("bytes") && len(one.blocks) == number("blocks"),
			"counts")
		f.collections = append(f.collections, one)
	}
	for _, d := range c.Documents {
		body := data[at:][:d.Stored]
		at += d.Stored
		digest := sha256.Sum256(body)
		must(bytes.Equal(digest[:], d.Digest), "digest of document %s", d.Name)
		if d.Stored < d.Size {
			body = specUnpacked(body)
		}
		must(len(body) == d.Size, "size of document %s", d.Name)
		f.documents = append(f.documents, documentOf{d.Name, body})
	}
	must(at == int(binary.BigEndian.Uint64(foot)), "the end of the documents")
	return f
}

func specUnpacked(body []byte) []byte {
	z, err := zstd.NewReader(nil)
	must(err == nil, "zstd")
	defer z.Close()
	body, err = z.DecodeAll(body, nil)
	must(err == nil, "zstd")
	return body
}

// read reads the blocks that an index lists, the first at offset at of data, and returns the offset after the last.
func (c *specCollection) read(data []byte, at int, index []byte) int {
	last := ""
	for len(index) > 0 {
		first, end := specText(&index), specText(&index)
		count, size, stored := specUvarint(&index), specUvarint(&index), specUvarint(&index)
		body := data[at:][:stored]
		digest := sha256.Sum256(body)
		must(bytes.Equal(digest[:], index[:32]), "digest of a block")
		index = index[32:]
		at += stored
		if stored < size {
			body = specUnpacked(body)
		}
		must(len(body) == size, "size at %d", at)
		c.blocks = append(c.blocks, body)
		for i := range count {
			r := specRecord{specText(&body), specText(&body), specText(&body), specText(&body), nil}
			r.payload = []byte(specText(&body))
			must(r.key > last && (i > 0 || r.key == first), "order of %q", r.key)
			last = r.key
			c.records = append(c.records, r)
		}
		must(last == end && len(body) == 0, "end of a block")
	}
	return at
}

// specMsgpack decodes a msgpack value to the Go types that encoding/json uses for any values.
func specMsgpack(b *[]byte) any {
	c := (*b)[0]
	*b = (*b)[1:]
	number := func(width int) (v uint64) {
		for _, d := range (*b)[:width] {
			v = v<<8 | uint64(d)
		}
		*b = (*b)[width:]
		return v
	}
	text := func(n int) string { s := string((*b)[:n]); *b = (*b)[n:]; return s }
	array := func(n int) any {
		out := []any{}
		for range n {
			out = append(out, specMsgpack(b))
		}
		return out
	}
	object := func(n int) any {
		out, last := map[string]any{}, ""
		for range n {
			k := specMsgpack(b).(string)
			must(k > last || len(out) == 0, "order of fields")
			out[k], last = specMsgpack(b), k
		}
		return out
	}
	switch {
	case c < 0x80:
		return int64(c)
	case c < 0x90:
		return object(int(c & 0xf))
	case c < 0xa0:
		return array(int(c & 0xf))
	case c < 0xc0:
		return text(int(c & 0x1f))
	case c >= 0xe0:
		return int64(int8(c))
	}
	switch c {
	case 0xc0:
		return nil
	case 0xc2, 0xc3:
		return c == 0xc3
	case 0xcb:
		return math.Float64frombits(number(8))
	case 0xcc, 0xcd, 0xce, 0xcf:
		return int64(number(1 << (c - 0xcc)))
	case 0xd0:
		return int64(int8(number(1)))
	case 0xd1:
		return int64(int16(number(2)))
	case 0xd2:
		return int64(int32(number(4)))
	case 0xd3:
		return int64(number(8))
	case 0xd9, 0xda, 0xdb:
		return text(int(number(1 << (c - 0xd9))))
	case 0xdc, 0xdd:
		return array(int(number(2 << (c - 0xdc))))
	case 0xde, 0xdf:
		return object(int(number(2 << (c - 0xde))))
	case 0xc7:
		must(number(1) == 0 && (*b)[0] <= 2, "extension")
		*b = (*b)[1:]
		return nil
	}
	panic(fmt.Sprintf("msgpack type %x", c))
}

func TestReaderFromTheSpecification(t *testing.T) {
	golden, err := os.ReadFile(goldenPath(1, false))
	if err != nil {
		t.Fatal(err)
	}
	manyBlocks := contentOf{collection: snapshot.Collection{Identity: identityOf("pods")}}
	for i := range 1500 {
		manyBlocks.records = append(manyBlocks.records, rec(fmt.Sprintf("k%05d", i), 10))
	}
	for _, c := range []struct {
		data []byte
		want content
	}{
		{golden, goldenContent(t)},
		{small().bytes(t, smallBlocks), small()},
		{goldenWithDocuments(t), goldenDocuments(t)},
		{content{}.bytes(t, snapshot.WriterOptions{}), content{}},
		{content{collections: []contentOf{manyBlocks}}.bytes(t, snapshot.WithBlocks(snapshot.WriterOptions{}, 1)),
			content{collections: []contentOf{manyBlocks}}},
	} {
		f := readSpec(c.data)
		if len(f.collections) != len(c.want.collections) || f.header["clusterID"] != nil &&
			f.header["clusterID"] != c.want.header.ClusterID {
			t.Fatalf("%d collections of %d, header %v", len(f.collections), len(c.want.collections), f.header)
		}
		if !slices.EqualFunc(f.documents, c.want.documents, sameDocument) {
			t.Fatalf("documents %v, want %v", f.documents, c.want.documents)
		}
		for i, want := range c.want.collections {
			got := f.collections[i]
			if got.description["resource"] != want.collection.Identity.Resource || len(got.records) != len(want.records) {
				t.Fatalf("%v, %d records", got.description, len(got.records))
			}
			for j, r := range want.records {
				g := got.records[j]
				if g.key != r.Key || g.uid != r.UID || g.rv != r.ResourceVersion || g.encoding != r.Encoding ||
					!bytes.Equal(g.payload, r.Payload) {
					t.Fatalf("record %q", r.Key)
				}
				if r.Encoding == encodingMsgpack {
					checkSpecMsgpack(t, g)
				}
			}
		}
	}
}

// checkSpecMsgpack checks that this file's msgpack decoder and package codec decode a record to the same object.
func checkSpecMsgpack(t *testing.T, r specRecord) {
	t.Helper()
	rest := bytes.Clone(r.payload)
	v := specMsgpack(&rest)
	if len(rest) > 0 {
		t.Fatalf("%s: %d bytes are left", r.key, len(rest))
	}
	got, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	u, err := codec.Unstructured().Decode(r.payload)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := json.Marshal(u); err != nil || string(want) != string(got)+"\n" && string(want) != string(got) {
		t.Errorf("%s: %s, want %s", r.key, got, want)
	}
}
