package snapshot_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"
	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// checkAllocated checks that f, which reads a file of that size, allocates at most 64 MiB plus 8 times the size.
func checkAllocated(t *testing.T, size int, f func()) {
	t.Helper()
	if n, limit := allocated(f), int64(64<<20+8*size); n > limit {
		t.Errorf("a file of %d bytes: %d KiB allocated, %d are allowed", size, n>>10, limit>>10)
	}
}

// TestHostileCatalogs checks that a catalog takes bounded memory (issue 37: a megabyte of {} took 833 MB).
func TestHostileCatalogs(t *testing.T) {
	repeated := func(item string, bytes int) string { return strings.Repeat(item+",", bytes/(len(item)+1)) + item }
	var many []string
	for n := range 16_385 {
		many = append(many, fmt.Sprintf(`{"version":"v1","resource":"r%d","representation":"unstructured","indexDigest":%q}`, n,
			"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="))
	}
	for name, tt := range map[string]struct{ catalog, want string }{
		"empty collections": {`{"collections":[` + repeated("{}", 1<<20) + `]}`, "its catalog cannot be read"},
		"empty documents":   {`{"documents":[` + repeated("{}", 15<<20) + `]}`, "a document has no name"},
		"many collections": {`{"collections":[` + strings.Join(many, ",") + `]}`,
			"it has more than the 16384 collections or documents that are allowed"},
		"as many as are allowed": {`{"collections":[` + strings.Join(many[:16_384], ",") + `]}`, ""},
		"empty columns": {`{"collections":[` + podsText + `,"columns":[` + repeated("{}", 15<<20) + `]}]}`,
			"and 262144 are allowed"},
		"columns of many collections": {`{"collections":[` + repeated(podsText+`,"columns":[`+repeated("{}", 200_000)+`]}`, 15<<20) + `]}`,
			"is there twice"},
		"empty texts in the header": {`{"header":{"leftOut":[` + repeated(`""`, 15<<20) + `]}}`, "and 4194304 are allowed"},
		"a deep unknown field":      {`{"x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`, ""},
		"a field twice":             {`{"collections":[],"collections":[]}`, "a field is there twice"},
		"documents first":           {`{"documents":[],"collections":[]}`, "documents before collections"},
		"a list that is none":       {`{"collections":{}}`, "a list is something else"},
		"no object":                 {`[]`, "it is no object"},
		"something behind":          {`{} {}`, "something follows it"},
		"nulls":                     {`{"header":null,"collections":null,"documents":null}`, ""},
	} {
		data := rawFile{catalog: tt.catalog}.bytes()
		checkAllocated(t, len(data), func() {
			_, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%s: %.300v, want %q", name, err, tt.want)
			}
		})
	}
}

// TestSignatureComesFirst checks that the catalog of a file without the required signature is not parsed.
func TestSignatureComesFirst(t *testing.T) {
	public, _ := signingKey(t)
	for _, catalog := range []string{`{"collections":[{}]}`, `{"collections":[` + strings.Repeat("{},", 1<<20) + `{}]}`, "[["} {
		data := rawFile{catalog: catalog}.bytes()
		_, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)),
			snapshot.OpenOptions{SignedBy: []minisign.PublicKey{public}})
		if !errors.Is(err, snapshot.ErrUnsigned) {
			t.Errorf("%v, want %v", err, snapshot.ErrUnsigned)
		}
	}
}

// TestObjectsOutOfProportion checks that an object whose decoding would take hundreds of times its size is refused,
// unlike a large ordinary object (issue 37: 3 million empty containers took 4.9 GB).
func TestObjectsOutOfProportion(t *testing.T) {
	const n = 3_000_000
	spec := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), bytes.Repeat([]byte{2<<3 | 2, 0}, n))
	protobuf := func(message []byte) []byte { return append([]byte{0, 0}, message...) }
	text := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod",
		"data": strings.Repeat(`{"panels":[{"a":1},{"b":"c"}]}`, 40_000)}}
	bin := func(text string) []byte {
		return append([]byte{0xc6, byte(len(text) >> 24), byte(len(text) >> 16), byte(len(text) >> 8), byte(len(text))}, text...)
	}
	array := append([]byte{0x81, 0xa1, 'x', 0xdd, n >> 24, n >> 16 & 0xff, n >> 8 & 0xff, n & 0xff}, bytes.Repeat([]byte{0x80}, n)...)
	for name, tt := range map[string]struct {
		encoding string
		payload  []byte
		refused  bool
	}{
		"empty containers":     {codec.EncodingProtobuf, protobuf(spec), true},
		"empty maps":           {codec.EncodingMsgpack, array, true},
		"empty objects":        {codec.EncodingMsgpack, bin(`{"x":[` + strings.Repeat("{},", n) + `{}]}`), true},
		"JSON in a message":    {codec.EncodingProtobuf, protobuf(protowire.AppendBytes([]byte{1<<3 | 2}, []byte(`{"x":[`+strings.Repeat("{},", n)+`{}]}`))), true},
		"a large text":         {codec.EncodingMsgpack, value(codec.Unstructured().Append(nil, text))(t), false},
		"a large text, typed":  {codec.EncodingProtobuf, protobuf(protowire.AppendString([]byte{1<<3 | 2}, text.Object["data"].(string))), false},
		"an unknown encoding":  {"of the future", make([]byte, 1<<20), false},
		"a malformed message":  {codec.EncodingProtobuf, bytes.Repeat([]byte{0xff}, 1<<20), false},
		"a map that ends soon": {codec.EncodingMsgpack, append([]byte{0xdf, 0xff, 0xff, 0xff, 0xff}, make([]byte, 1<<20)...), false},
	} {
		t.Run(name, func(t *testing.T) {
			c := contentOf{snapshot.Collection{Identity: identityOf("pods"), Resource: entry.ResourceInfo{Kind: "Pod"}, Complete: true},
				[]entry.Entry{{Key: "a/x", UID: "u", ResourceVersion: "1", Encoding: tt.encoding, Payload: tt.payload}}}
			data := content{collections: []contentOf{c}}.bytes(t, snapshot.WriterOptions{})
			f := fileOfBytes(t, data)
			checkAllocated(t, len(data), func() {
				err := f.Records(t.Context(), c.collection.Identity, func(entry.Entry) error { return nil })
				if errors.Is(err, snapshot.ErrTooLarge) != tt.refused || tt.refused && !strings.Contains(err.Error(), `"a/x" takes about`) {
					t.Errorf("%v, refused %v", err, tt.refused)
				}
			})
			if !tt.refused {
				return
			}
			path := filepath.Join(t.TempDir(), "s.larder")
			fine(t)(nil, os.WriteFile(path, data, 0o600))
			if _, err := snapshot.Restore(t.Context(), path, path+".db", snapshot.RestoreOptions{}); !errors.Is(err, snapshot.ErrTooLarge) {
				t.Errorf("restore: %v", err)
			}
		})
	}
}
