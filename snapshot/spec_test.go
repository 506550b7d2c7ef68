package snapshot_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/snapshot"
)

// This is a reader that was written from README.md alone: it uses nothing of this package.

type specFile struct {
	manifest    map[string]any
	collections []specCollection
}

type specCollection struct {
	begin, end map[string]any
	records    []specRecord
}

type specRecord struct {
	key, uid, rv, encoding string
	payload                []byte
}

// spec fails by panicking with what is wrong.
type spec struct {
	data []byte
	id   []byte
	all  []byte // prologue and digests
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

func specJSON(b []byte) (m map[string]any) {
	must(json.Unmarshal(b, &m) == nil, "JSON")
	return m
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frame takes the frame at an offset apart.
func (s *spec) frame(at, number int) (kind byte, head, body []byte, next int) {
	b := s.data[at:]
	u32 := func(i int) int { return int(binary.BigEndian.Uint32(b[i:])) }
	must(string(b[:4]) == "\xa7LRD" && bytes.Equal(b[4:12], s.id), "marker, file id at %d", at)
	must(u32(16) == number && binary.BigEndian.Uint64(b[32:]) == uint64(at), "number, offset at %d", at)
	h, stored, size := u32(20), u32(24), u32(28)
	head, body = b[44:44+h], b[44+h:44+h+stored]
	must(crc32.Checksum(append(bytes.Clone(b[:40]), head...), castagnoli) == uint32(u32(40)), "CRC at %d", at)
	end := 44 + h + stored
	digest := sha256.Sum256(b[:end])
	must(bytes.Equal(digest[:], b[end:end+32]), "digest at %d", at)
	if b[13] == 1 {
		must(bytes.ContainsRune([]byte("BXT"), rune(b[12])), "%c is compressed", b[12])
		z, err := zstd.NewReader(nil)
		must(err == nil, "zstd")
		defer z.Close()
		body, err = z.DecodeAll(body, nil)
		must(err == nil, "zstd at %d", at)
	}
	must(len(body) == size, "size at %d", at)
	return b[12], head, body, at + end + 32
}

func readSpec(data []byte) (f specFile) {
	s := &spec{data: data}
	must(string(data[:8]) == "\x89LARDER\n" && binary.BigEndian.Uint32(data[8:]) == 1, "magic, version")
	s.id = data[12:20]
	at := 21 + int(data[20])
	must(crc32.Checksum(data[:at], castagnoli) == binary.BigEndian.Uint32(data[at:]), "CRC of the prologue")
	at += 4
	s.all = append(s.all, data[:at]...)
	foot := data[len(data)-32:]
	must(string(foot[24:]) == "\nREDRAL\x89" && bytes.Equal(foot[12:20], s.id) &&
		crc32.Checksum(foot[:20], castagnoli) == binary.BigEndian.Uint32(foot[20:]), "footer")
	var tail, entries []byte
	var last string
	var bytesIn, blocks, pages int
	var firstOfPage string
	var refs []byte
	for number := 0; ; number++ {
		kind, head, body, next := s.frame(at, number)
		span := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(at)), uint64(next-at))
		digest := data[next-32 : next]
		switch kind {
		case 'M':
			must(number == 0 && len(head) == 0, "M")
			f.manifest, tail = specJSON(body), span
		case 'C':
			must(specUvarint(&head) == len(f.collections), "number of C")
			f.collections = append(f.collections, specCollection{begin: specJSON(body)})
			last, bytesIn, blocks, pages, entries, refs = "", 0, 0, 0, nil, nil
		case 'B':
			c := &f.collections[len(f.collections)-1]
			must(specUvarint(&head) == len(f.collections)-1, "number in B")
			count, first, end := specUvarint(&head), specText(&head), specText(&head)
			if len(entries) == 0 {
				firstOfPage = first
			}
			entry := binary.AppendUvarint(nil, uint64(len(first)))
			entry = append(binary.AppendUvarint(append(entry, first...), uint64(len(end))), end...)
			entry = binary.AppendUvarint(append(entry, span...), uint64(count))
			entries = append(append(entries, entry...), digest...)
			for i := range count {
				r := specRecord{specText(&body), specText(&body), specText(&body), specText(&body), nil}
				r.payload = []byte(specText(&body))
				must(r.key > last && (i > 0 || r.key == first), "order of %q", r.key)
				last, bytesIn = r.key, bytesIn+len(r.payload)
				c.records = append(c.records, r)
			}
			must(last == end && len(body) == 0, "end of B")
			blocks++
		case 'X':
			must(specUvarint(&head) == len(f.collections)-1 && bytes.Equal(body, entries), "X")
			refs = append(append(binary.AppendUvarint(refs, uint64(len(firstOfPage))), firstOfPage...), span...)
			pages++
			entries = nil
		case 'E':
			c := &f.collections[len(f.collections)-1]
			must(specUvarint(&head) == len(f.collections)-1 && len(entries) == 0, "E")
			c.end = specJSON(body)
			for name, want := range map[string]int{"objects": len(c.records), "bytes": bytesIn, "blocks": blocks} {
				n, _ := c.end[name].(float64)
				must(int(n) == want, "%s: %v, want %d", name, n, want)
			}
			for _, name := range []string{"group", "version", "resource", "namespace", "labelSelector", "fieldSelector",
				"shardSelector", "representation"} {
				must(c.begin[name] == c.end[name], "%s", name)
			}
			tail = append(append(binary.AppendUvarint(tail, uint64(pages)), refs...), span...)
		case 'T':
			sum := sha256.Sum256(s.all)
			must(bytes.Equal(head, sum[:]) && bytes.Equal(body, tail), "T")
			must(binary.BigEndian.Uint64(foot) == uint64(at) && int(binary.BigEndian.Uint32(foot[8:])) == next-at &&
				next == len(data)-32, "end")
			return f
		default:
			panic("kind")
		}
		s.all = append(s.all, digest...)
		at = next
	}
}

// specMsgpack reads a payload in msgpack as JSON has it.
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
	manyPages := contentOf{collection: snapshot.Collection{Identity: identityOf("pods")}}
	for i := range 1500 {
		manyPages.records = append(manyPages.records, rec(fmt.Sprintf("k%05d", i), 10))
	}
	for _, c := range []struct {
		data []byte
		want content
	}{
		{golden, goldenContent(t)},
		{small().bytes(t, smallBlocks), small()},
		{content{}.bytes(t, snapshot.WriterOptions{}), content{}},
		{content{collections: []contentOf{manyPages}}.bytes(t, snapshot.WithBlocks(snapshot.WriterOptions{}, 1)),
			content{collections: []contentOf{manyPages}}},
	} {
		f := readSpec(c.data)
		if len(f.collections) != len(c.want.collections) || f.manifest["clusterID"] != nil &&
			f.manifest["clusterID"] != c.want.header.ClusterID {
			t.Fatalf("%d collections of %d, manifest %v", len(f.collections), len(c.want.collections), f.manifest)
		}
		for i, want := range c.want.collections {
			got := f.collections[i]
			if got.end["resource"] != want.collection.Identity.Resource || len(got.records) != len(want.records) {
				t.Fatalf("%v, %d records", got.end, len(got.records))
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

// checkSpecMsgpack compares the msgpack of the specification with what the codec reads.
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
