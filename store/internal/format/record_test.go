package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/larder-dev/larder/entry"
)

func drawHeader(t *rapid.T) Header {
	h := Header{
		UID:      tupleText().Draw(t, "uid"),
		RV:       tupleText().Draw(t, "rv"),
		Seq:      rapid.Uint64().Draw(t, "seq"),
		Encoding: rapid.SampledFrom([]string{"protobuf", "msgpack", ""}).Draw(t, "encoding"),
	}
	terms := rapid.MapOfN(tupleText(), rapid.SliceOfN(tupleText(), 0, 4), 0, 4).Draw(t, "terms")
	if len(terms) > 0 {
		h.Terms = terms
	}
	if rapid.Bool().Draw(t, "compressed") {
		h.Dictionary = rapid.Uint64Min(1).Draw(t, "dictionary")
		h.Size = rapid.IntRange(1, MaxDecompressed).Draw(t, "size")
	}
	if rapid.Bool().Draw(t, "changed") {
		h.Created = max(1, h.Seq) - 1
	}
	if h.Since = tupleText().Draw(t, "since"); h.Since != "" {
		h.Created = h.FirstSeq() // AppendHeader always sets Created.
	}
	return h
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHeader(t)
		before := []byte("before")
		collection, key := tupleText().Draw(t, "collection"), tupleText().Draw(t, "key")
		payload := rapid.SliceOf(rapid.Byte()).Draw(t, "payload")

		data, ok := bytes.CutPrefix(AppendRecord(before, collection, key, h, payload), before)
		if !ok {
			t.Fatal("appendRecord did not append")
		}
		got, gotPayload, err := ParseRecord(collection, key, data)
		if err != nil || !reflect.DeepEqual(got, h) || !bytes.Equal(gotPayload, payload) {
			t.Fatalf("got %+v, %q, %v; want %+v, %q", got, gotPayload, err, h, payload)
		}
		part := Header{Encoding: h.Encoding, Dictionary: h.Dictionary, Size: h.Size}
		got, gotPayload, err = ParsePayload(collection, key, data)
		if err != nil || !reflect.DeepEqual(got, part) || !bytes.Equal(gotPayload, payload) {
			t.Fatalf("parsePayload: %+v, %q, %v", got, gotPayload, err)
		}
		if got, err := ParseHeader(collection, key, data); err != nil || !reflect.DeepEqual(got, h) {
			t.Fatalf("parseHeader: %+v, %v", got, err)
		}
	})
}

func TestRecordIsDeterministic(t *testing.T) {
	h := Header{UID: "u", Terms: map[string][]string{}}
	for _, name := range strings.Split("a b c d e f g h", " ") {
		h.Terms[name] = []string{"v"}
	}
	want := AppendRecord(nil, "c", "k", h, nil)
	for range 20 {
		if !bytes.Equal(AppendRecord(nil, "c", "k", h, nil), want) {
			t.Fatal("two records of one header differ")
		}
	}
}

func sampleRecord() []byte {
	return AppendRecord(nil, "collection", "ns/name", Header{
		UID: "uid", RV: "12", Seq: 7, Encoding: "msgpack",
		Terms: map[string][]string{"namespace": {"ns"}, "label": {"", "a"}},
	}, []byte("secret payload"))
}

func packedRecord() []byte {
	return AppendRecord(nil, "collection", "ns/name", Header{
		UID: "uid", RV: "12", Seq: 7, Encoding: "msgpack", Terms: map[string][]string{"namespace": {"ns"}},
		Dictionary: 1 << 60, Size: 70000,
	}, []byte("secret payload"))
}

func sealedRecord() []byte {
	return AppendRecord(nil, "collection", "ns/name", Header{
		UID: "uid", RV: "12", Seq: 7, Encoding: "msgpack", Terms: map[string][]string{"namespace": {"a token"}},
		SealedBy: 1 << 61,
	}, []byte("sealed payload"))
}

func TestRecordDetectsEveryFlippedBit(t *testing.T) {
	for _, data := range [][]byte{sampleRecord(), packedRecord(), sealedRecord()} {
		for i := range len(data) * 8 {
			data[i/8] ^= 1 << (i % 8)
			_, _, err := ParseRecord("collection", "ns/name", data)
			requireDamaged(t, err)
			_, _, err = ParsePayload("collection", "ns/name", data)
			requireDamaged(t, err)
			data[i/8] ^= 1 << (i % 8)
		}
	}
}

// TestRecordOfALaterVersion checks that a later version's header is readable, and its payload refused.
func TestRecordOfALaterVersion(t *testing.T) {
	data := packedRecord()
	data[0] = SealedVersion + 1
	data = resum("collection", "ns/name", data)
	h, _, err := ParseRecord("collection", "ns/name", data)
	if err != nil || h.Unknown != SealedVersion+1 || h.RV != "12" || h.Dictionary != 0 || len(h.Terms) != 1 {
		t.Errorf("%+v, %v", h, err)
	}
}

// TestRecordBoundsThePayload checks that an invalid or too large uncompressed size in a header counts as damage.
func TestRecordBoundsThePayload(t *testing.T) {
	for _, h := range []Header{{Dictionary: 1, Size: MaxDecompressed + 1}, {Dictionary: 1}, {Dictionary: 1, Size: -1}} {
		data := AppendRecord(nil, "collection", "ns/name", h, nil)
		_, _, err := ParseRecord("collection", "ns/name", data)
		requireDamaged(t, err)
		_, _, err = ParsePayload("collection", "ns/name", data)
		requireDamaged(t, err)
	}
	head := AppendHeader(nil, Header{UID: "uid"})
	if _, err := decodeHeader(packedVersion, head); err == nil {
		t.Error("a header without a dictionary was accepted")
	}
}

func TestRecordDetectsTruncation(t *testing.T) {
	data := sampleRecord()
	for n := range data {
		_, _, err := ParseRecord("collection", "ns/name", data[:n])
		requireDamaged(t, err)
	}
	_, _, err := ParseRecord("collection", "ns/name", append(data, 0))
	requireDamaged(t, err)
}

func TestRecordBelongsToOneCollectionAndKey(t *testing.T) {
	data := sampleRecord()
	for _, at := range [][2]string{
		{"collection", "ns/other"}, {"other", "ns/name"}, {"collectionns", "/name"}, {"", "collectionns/name"},
	} {
		if _, _, err := ParseRecord(at[0], at[1], data); !errors.Is(err, entry.ErrDamaged) {
			t.Errorf("read as %q of %q: %v", at[1], at[0], err)
		}
	}
}

// requireDamaged fails the test unless err is ErrDamaged and names the collection and the key, but no content.
func requireDamaged(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, entry.ErrDamaged) {
		t.Fatalf("got %v, want ErrDamaged", err)
	}
	if s := err.Error(); !strings.Contains(s, "ns/name") || !strings.Contains(s, "collection") ||
		strings.Contains(s, "secret") {
		t.Fatalf("error %q must name collection and key, and no content", s)
	}
}

func TestRecordIgnoresLaterHeaderFields(t *testing.T) {
	head := AppendHeader(nil, Header{UID: "uid", RV: "12", Seq: 9, Created: 7, Since: "8", Encoding: "msgpack"})
	head[0]++ // The header now claims one element more than it has.
	head = append(head, 0xc0)
	h, err := decodeHeader(RecordVersion, head)
	if err != nil || h.RV != "12" || h.Created != 7 || h.Since != "8" {
		t.Fatalf("got %+v, %v", h, err)
	}
}

func TestRecordRefusesShortHeaders(t *testing.T) {
	head := AppendHeader(nil, Header{UID: "uid"})
	head[0]-- // The header now claims one element fewer than it has.
	if _, err := decodeHeader(RecordVersion, head); err == nil {
		t.Fatal("a header with too few fields was accepted")
	}
}

func resum(collection, key string, data []byte) []byte {
	data = bytes.Clone(data)
	if len(data) >= RecordFixed {
		binary.BigEndian.PutUint32(data[1:], Sum(collection, key, data))
	}
	return data
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte{})
	f.Add(sampleRecord())
	f.Add(packedRecord())
	f.Add(sealedRecord())
	f.Add([]byte("\x03\x00\x00\x00\x00\x06\x95\xa0\xa0\x00\xa0\x80"))
	f.Add(AppendRecord(nil, "c", "k", Header{}, nil))
	f.Add([]byte("\x01\x00\x00\x00\x00\x06\x95\xa0\xa0\x00\xa0\xdf\xff\xff\xff\xff"))
	f.Add([]byte("\x01\x00\x00\x00\x00\x05\xdd\xff\xff\xff\xff"))
	f.Add([]byte("\x01\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, d := range [][]byte{data, resum("c", "k", data)} {
			h, payload, err := ParseRecord("c", "k", d)
			if err != nil {
				if !errors.Is(err, entry.ErrDamaged) {
					t.Fatalf("error %v is not ErrDamaged", err)
				}
				continue
			}
			part, rest, err := ParsePayload("c", "k", d)
			if err != nil || part.Encoding != h.Encoding || part.Dictionary != h.Dictionary || part.Size != h.Size ||
				part.SealedBy != h.SealedBy || !bytes.Equal(part.Head, h.Head) || !bytes.Equal(rest, payload) {
				t.Fatalf("%+v, and its part that is about the payload %+v, %v", h, part, err)
			}
			if h.Unknown != 0 {
				continue
			}
			again, rest, err := ParseRecord("c", "k", AppendRecord(nil, "c", "k", h, payload))
			again.Head, h.Head = nil, nil // Equal headers may have different encodings.
			if err != nil || !bytes.Equal(rest, payload) || !reflect.DeepEqual(again, h) {
				t.Fatalf("%+v came back as %+v, %v", h, again, err)
			}
		}
	})
}

// TestRecordErrorShowsNoContent checks the error for a key that a flipped bit has lengthened into the content.
func TestRecordErrorShowsNoContent(t *testing.T) {
	_, _, err := ParseRecord("c", "ns/name\x01\x02secret", []byte("too short"))
	if !errors.Is(err, entry.ErrDamaged) || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}
