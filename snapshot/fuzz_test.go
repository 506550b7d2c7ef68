package snapshot_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// seeds are whole snapshots, and some that were cut.
func seeds(f *testing.F) {
	f.Helper()
	data := small().bytes(f, snapshot.WithID(snapshot.WithBlocks(snapshot.WriterOptions{}, 100), fileID{1}))
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Add(data[:len(data)-1])
	f.Add(append(bytes.Clone(data), data...))
	f.Add(content{}.bytes(f, snapshot.WithID(snapshot.WriterOptions{}, fileID{1})))
	f.Add([]byte(magic))
	f.Add([]byte(ageMagic + "v1\n"))
	f.Add([]byte(nil))
	golden, err := filepath.Glob("testdata/*.larder")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range golden {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
}

// fuzzed reads anything in every way there is. Errors tell what is wrong with the file, and the ways agree.
func fuzzed(t *testing.T, data []byte) {
	t.Helper()
	streamed, _, streamErr := readAll(bytes.NewReader(data), snapshot.ReaderOptions{})
	if streamErr != nil && !typed(streamErr) && !errors.Is(streamErr, snapshot.ErrEncrypted) {
		t.Fatalf("Reader: %v", streamErr)
	}
	if _, err := snapshot.Verify(t.Context(), bytes.NewReader(data), snapshot.ReaderOptions{}); err != nil &&
		!typed(err) && !errors.Is(err, snapshot.ErrEncrypted) {
		t.Fatalf("Verify: %v", err)
	}
	fuzzedOpen(t, data, streamed, streamErr)
}

func fuzzedOpen(t *testing.T, data []byte, streamed content, streamErr error) {
	t.Helper()
	f, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{})
	if err != nil {
		if streamErr == nil || !typed(err) && !errors.Is(err, snapshot.ErrEncrypted) {
			t.Fatalf("Open: %v, the stream %v", err, streamErr)
		}
		return
	}
	for i, c := range f.Manifest().Collections {
		n := 0
		err := f.Records(t.Context(), c.Identity, "", func(r entry.Entry) error {
			if streamErr == nil && !sameRecord(r, streamed.collections[i].records[n]) {
				t.Fatalf("record %d of %s differs", n, c.Identity)
			}
			n++
			return nil
		})
		if err != nil && (streamErr == nil || !typed(err)) {
			t.Fatalf("Records: %v, the stream %v", err, streamErr)
		}
		for _, key := range []string{"a/1", "a/2", "b/1", "n2", ""} {
			if _, _, err := f.Get(t.Context(), c.Identity, key); err != nil && !typed(err) {
				t.Fatalf("Get: %v", err)
			}
		}
	}
}

func FuzzReader(f *testing.F) {
	seeds(f)
	f.Fuzz(fuzzed)
}

// framesOf makes a snapshot of text: each frame is a kind, flags, and head and body with their lengths before them. All
// checksums, offsets and numbers are right, so that this comes to what is behind them; so are pages and the tail where
// their body is empty, and the tail's head likewise. The flags are those of shape.
func framesOf(text []byte) []byte {
	f := framer{id: fileID{1}, all: sha256.New()}
	f.out = prologue{version: formatNow, id: f.id, larder: "x"}.append(nil)
	f.all.Write(f.out)
	for len(text) > 1 {
		kind, flags := frameKind(text[0]), text[1]
		head, rest, ok := cutSized(text[2:])
		if !ok {
			break
		}
		body, rest, ok := cutSized(rest)
		if !ok {
			break
		}
		f.frame(kind, flags, head, body)
		text = rest
	}
	return footer{f.at, f.id}.append(f.out)
}

// framer is what framesOf has made up to now.
type framer struct {
	id     fileID
	out    []byte
	number uint32
	at     span // the last frame
	all    hash.Hash
	page   []byte // that of the blocks since the last one
	first  string // the key that it begins with
	ref    collectionRef
	tail   []byte
}

// The flags of a frame in the text that framesOf takes.
const (
	flagZstd = 1 // the body is four bytes that say how large it is, and what is stored
	flagPack = 2 // the body is compressed here
)

func (f *framer) frame(kind frameKind, flags byte, head, body []byte) {
	if kind == kindPage && len(body) == 0 {
		body = f.page
	}
	if kind == kindTail && len(body) == 0 {
		body = f.tail
	}
	if kind == kindTail && len(head) == 0 {
		head = f.all.Sum(nil)
	}
	h := frameHead{id: f.id, kind: kind, number: f.number, size: uint32(len(body)), offset: uint64(len(f.out))}
	switch {
	case flags&flagZstd != 0 && len(body) >= 4:
		h.compression, h.size, body = bodyZstd, binary.BigEndian.Uint32(body), body[4:]
	case flags&flagPack != 0 && len(body) > 0:
		h.compression, body = bodyZstd, encoder().EncodeAll(body, nil)
	}
	f.out = h.append(f.out, head, body)
	f.at = span{offset: h.offset, length: uint64(len(f.out)) - h.offset}
	digest := [digestSize]byte(f.out[len(f.out)-digestSize:])
	f.all.Write(digest[:])
	f.number++
	f.note(kind, head, digest)
}

// note keeps what pages and the tail say of a frame.
func (f *framer) note(kind frameKind, head []byte, digest [digestSize]byte) {
	switch kind {
	case kindManifest:
		f.tail = f.at.append(nil)
	case kindBlock:
		b := parseBlockHead(head)
		if len(f.page) == 0 {
			f.first = b.first
		}
		f.page = indexEntry{first: b.first, last: b.last, span: f.at, count: b.count, digest: digest}.append(f.page)
	case kindPage:
		f.ref.pages = append(f.ref.pages, pageRef{span: f.at, first: f.first})
		f.page = nil
	case kindEnd:
		f.ref.end = f.at
		f.tail, f.ref = f.ref.append(f.tail), collectionRef{}
	}
}

// textOfFrames is the inverse of framesOf for a snapshot that is whole. Where it is made anew, so are the pages and the
// tail.
func textOfFrames(data []byte, anew bool) (text []byte) {
	for _, at := idOf(data); at < len(data)-footerSize; {
		h := mustFixed(data[at:])
		head := data[at+fixedSize:][:h.headSize]
		body := data[at+fixedSize+int(h.headSize):][:h.stored]
		flags := h.compression
		switch {
		case anew && (h.kind == kindPage || h.kind == kindTail):
			body, flags = nil, flags<<1
			if h.kind == kindTail {
				head = nil
			}
		case flags != 0:
			body = append(binary.BigEndian.AppendUint32(nil, h.size), body...)
		}
		text = appendSized(appendSized(append(text, byte(h.kind), flags), head), body)
		at += h.total()
	}
	return text
}

func FuzzFrames(f *testing.F) {
	for _, c := range []content{
		small(), {}, {collections: []contentOf{{snapshot.Collection{Identity: identityOf("pods")},
			[]entry.Entry{rec("a", 5000)}}}},
	} {
		data := c.bytes(f, snapshot.WithID(snapshot.WithBlocks(snapshot.WriterOptions{}, 100), fileID{1}))
		for _, anew := range []bool{false, true} {
			text := textOfFrames(data, anew)
			// with it the fuzzer would not come to anything
			if _, _, err := readAll(bytes.NewReader(framesOf(text)), snapshot.ReaderOptions{}); anew && err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) { fuzzed(t, framesOf(text)) })
}

func FuzzDamage(f *testing.F) {
	data := small().bytes(f, snapshot.WithID(snapshot.WithBlocks(snapshot.WriterOptions{}, 100), fileID{1}))
	for _, at := range []int{50, 300, 700, len(data) - 40} {
		f.Add(uint16(at), uint16(10), []byte(marker))
	}
	f.Add(uint16(0), uint16(0), []byte(nil))
	f.Add(uint16(200), uint16(900), data[100:900])
	f.Fuzz(func(t *testing.T, at, length uint16, insert []byte) {
		start := min(int(at), len(data))
		end := min(start+int(length), len(data))
		fuzzed(t, append(append(bytes.Clone(data[:start]), insert...), data[end:]...))
	})
}

// FuzzDecode decodes, redacts and compares payloads.
func FuzzDecode(f *testing.F) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{"token": "x",
			lastApplied: `{"env":[{"name":"PASSWORD","value":"x"}]}`}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c",
			Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "x"}}}}},
	}
	for _, c := range decodable() {
		for _, obj := range []runtime.Object{pod, &corev1.Secret{Data: map[string][]byte{"a": []byte("b")}},
			&unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"a": "b"}, "metadata": map[string]any{}}}} {
			codec, err := codec.For(obj)
			if err != nil {
				f.Fatal(err)
			}
			data, err := codec.Append(nil, obj)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(c, data, data)
		}
		f.Add(c, []byte(nil), []byte("\xc4\x02{}"))
		f.Add(c, []byte("\xc4\x04null"), []byte("\xc7\x00\x01"))
	}
	all := snapshot.Redaction{Secrets: true, ConfigMaps: true, Annotations: []string{"*token*"}, Env: []string{"*PASS*"},
		ManagedFields: true}
	f.Fuzz(func(t *testing.T, which uint8, a, b []byte) {
		c, encoding := decodableCollection(which)
		before := memorySource{{c, []entry.Entry{{Key: "k", UID: "u", Encoding: encoding, Payload: a}}}}
		after := memorySource{{c, []entry.Entry{{Key: "k", UID: "u", Encoding: encoding, Payload: b}}}}
		redacted, err := snapshot.Select(before, snapshot.SelectOptions{Redaction: all})
		if err != nil {
			t.Fatal(err)
		}
		expected := func(err error) bool {
			return err == nil || errors.Is(err, snapshot.ErrDamaged) || errors.Is(err, snapshot.ErrUndecodable)
		}
		var out []byte
		err = redacted.Records(t.Context(), c.Identity, "", func(r entry.Entry) error { out = r.Payload; return nil })
		if !expected(err) {
			t.Logf("redact: %v", err) // an object that does not fit its type when it is written again
		}
		if err == nil {
			if _, err := snapshot.NewDecoder(c).Decode(entry.Entry{Key: "k", Encoding: encoding, Payload: out}); err != nil {
				t.Fatalf("what was redacted cannot be decoded: %v", err)
			}
		}
		_, err = snapshot.Diff(t.Context(), before, after, snapshot.DiffOptions{}, func(snapshot.Change) error { return nil })
		if !expected(err) {
			t.Fatalf("Diff: %v", err)
		}
	})
}

// decodable are the numbers of decodableCollection.
func decodable() []uint8 {
	return []uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}
}

func decodableCollection(which uint8) (c snapshot.Collection, encoding string) {
	c.Identity, c.Resource.Kind = identityOf([]string{"pods", "secrets", "configmaps"}[int(which)%3]),
		[]string{"Pod", "Secret", "ConfigMap"}[int(which)%3]
	c.Identity.Representation = []entry.Representation{entry.Typed, entry.Unstructured, entry.Metadata}[int(which/3)%3]
	return c, []string{encodingProtobuf, encodingMsgpack}[int(which/9)%2]
}
