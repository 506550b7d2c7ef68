package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// content is the contents of a snapshot in memory, the model with which a written snapshot is compared.
type content struct {
	header      snapshot.Header
	collections []contentOf
	documents   []documentOf
}

type documentOf struct {
	name string
	data []byte
}

type contentOf struct {
	collection snapshot.Collection
	records    []entry.Entry
}

func (c content) write(w io.Writer, o snapshot.WriterOptions) error {
	s, err := snapshot.NewWriter(w, c.header, o)
	if err != nil {
		return err
	}
	for _, col := range c.collections {
		if err := s.Begin(col.collection.Identity); err != nil {
			return err
		}
		for _, r := range col.records {
			if err := s.Add(r); err != nil {
				return err
			}
		}
		if _, err := s.End(col.collection); err != nil {
			return err
		}
	}
	for _, d := range c.documents {
		if err := s.Document(d.name, d.data); err != nil {
			return err
		}
	}
	return s.Close()
}

func (c content) bytes(t rapid.TB, o snapshot.WriterOptions) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := c.write(&b, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// readAll opens and reads a whole snapshot. After an error it also returns the part that was read before.
func readAll(data []byte, o snapshot.OpenOptions) (c content, m snapshot.Manifest, err error) {
	f, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), o)
	if err != nil {
		return c, m, err
	}
	m = f.Manifest()
	c.header = m.Header
	for _, col := range m.Collections {
		of := contentOf{collection: col}
		failed := f.Records(context.Background(), col.Identity, func(r entry.Entry) error {
			of.records = append(of.records, keep(r))
			return nil
		})
		c.collections, err = append(c.collections, of), errors.Join(err, failed)
	}
	for _, name := range m.Documents {
		data, failed := f.Document(context.Background(), name)
		if failed == nil {
			c.documents = append(c.documents, documentOf{name, data})
		}
		err = errors.Join(err, failed)
	}
	return c, m, err
}

func keep(r entry.Entry) entry.Entry {
	r.Payload = bytes.Clone(r.Payload)
	return r
}

// tb has the methods that testing.TB and *rapid.T have in common, with a context.
type tb interface {
	rapid.TB
	Context() context.Context
}

func readFile(t tb, f *snapshot.File) (c content) {
	t.Helper()
	c.header = f.Manifest().Header
	for _, col := range f.Manifest().Collections {
		of := contentOf{collection: col}
		err := f.Records(t.Context(), col.Identity, func(r entry.Entry) error {
			of.records = append(of.records, keep(r))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		c.collections = append(c.collections, of)
	}
	for _, name := range f.Manifest().Documents {
		data, err := f.Document(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		c.documents = append(c.documents, documentOf{name, data})
	}
	return c
}

func fileOf(t tb, of ...contentOf) *snapshot.File {
	t.Helper()
	return fileOfBytes(t, content{collections: of}.bytes(t, snapshot.WithBlocks(snapshot.WriterOptions{}, 300)))
}

func fileOfBytes(t tb, data []byte) *snapshot.File {
	t.Helper()
	f, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (c content) check(t rapid.TB, got content) {
	t.Helper()
	if !reflect.DeepEqual(got.header, c.header) {
		t.Fatalf("header %+v, want %+v", got.header, c.header)
	}
	if len(got.collections) != len(c.collections) {
		t.Fatalf("%d collections, want %d", len(got.collections), len(c.collections))
	}
	for i, want := range c.collections {
		g := got.collections[i]
		col := want.collection
		col.Objects, col.Bytes, col.Blocks = len(want.records), 0, g.collection.Blocks
		if len(want.records) > 0 {
			col.Resource.Namespaced = col.Resource.Namespaced || strings.Contains(want.records[0].Key, "/")
		}
		for _, r := range want.records {
			col.Bytes += int64(len(r.Payload))
		}
		if !reflect.DeepEqual(g.collection, col) {
			t.Fatalf("collection\n%+v, want\n%+v", g.collection, col)
		}
		if !slices.EqualFunc(g.records, want.records, sameRecord) {
			t.Fatalf("%s: %d records are not the %d that were written", col.Identity, len(g.records), len(want.records))
		}
	}
	if !slices.EqualFunc(got.documents, c.documents, sameDocument) {
		t.Fatalf("documents %v, want %v", got.documents, c.documents)
	}
}

func sameDocument(a, b documentOf) bool { return a.name == b.name && bytes.Equal(a.data, b.data) }

func sameRecord(a, b entry.Entry) bool {
	return a.Key == b.Key && a.UID == b.UID && a.ResourceVersion == b.ResourceVersion && a.Encoding == b.Encoding &&
		bytes.Equal(a.Payload, b.Payload)
}

func drawContent(t *rapid.T, block int) content {
	c := content{header: snapshot.Header{
		ClusterID: rapid.String().Draw(t, "cluster"), ServerVersion: "v1.36.3",
		Larder: rapid.StringN(0, 20, 255).Draw(t, "larder"),
	}}
	if rapid.Bool().Draw(t, "dated") {
		c.header.TakenAt = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "collections") {
		c.collections = append(c.collections, drawCollection(t, i, block))
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "documents") {
		c.documents = append(c.documents, documentOf{
			name: fmt.Sprint(rapid.StringN(0, 20, 255).Draw(t, "name"), i),
			data: payload(i, rapid.SampledFrom([]int{0, 1, block, 2 * block}).Draw(t, "length")),
		})
	}
	return c
}

func drawCollection(t *rapid.T, i, block int) contentOf {
	c := snapshot.Collection{
		Identity: entry.Identity{
			GroupVersionResource: schema.GroupVersionResource{Group: "larder.dev", Version: "v1",
				Resource: fmt.Sprint("things", i)},
			Namespace:     rapid.SampledFrom([]string{"", "shop"}).Draw(t, "namespace"),
			LabelSelector: rapid.SampledFrom([]string{"", "a=b"}).Draw(t, "labels"),
			Representation: rapid.SampledFrom([]entry.Representation{entry.Typed, entry.Unstructured,
				entry.Metadata}).Draw(t, "representation"),
		},
		Attributes: entry.Attributes{ClusterID: "c", Codec: "msgpack", Schema: rapid.String().Draw(t, "schema"),
			Transform: "t", OpenAPI: "o"},
		Resource: entry.ResourceInfo{Kind: "Thing", Singular: "thing", ShortNames: []string{"th"}, Namespaced: true,
			Categories: []string{"all"}, Columns: []entry.Column{{Name: "Size", Type: "integer", JSONPath: ".spec.size"}}},
		ResourceVersion: rapid.StringMatching("[0-9]*").Draw(t, "rv"),
		Complete:        rapid.Bool().Draw(t, "complete"),
		MustRelist:      rapid.SampledFrom([]string{"", "because"}).Draw(t, "must"),
	}
	size := rapid.SampledFrom([]int{0, 1, block / 8, 2 * block}).Draw(t, "size")
	keys := rapid.SliceOfNDistinct(rapid.OneOf(
		rapid.StringMatching("[a-c]{1,3}/[a-z]{1,8}"),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 12), func(b []byte) string { return string(b) }),
	), 0, 30, rapid.ID).Draw(t, "keys")
	slices.Sort(keys)
	of := contentOf{collection: c}
	for j, key := range keys {
		of.records = append(of.records, entry.Entry{
			Key: key, UID: fmt.Sprint("uid-", j), ResourceVersion: fmt.Sprint(j),
			Encoding: rapid.SampledFrom([]string{"msgpack", "protobuf", "of the future"}).Draw(t, "encoding"),
			Payload:  payload(j, size),
		})
	}
	return of
}

// payload returns size bytes. Half of them are random, so that compression makes a block smaller, but not tiny.
func payload(seed, size int) []byte {
	b := make([]byte, size)
	x := uint32(seed)*2654435761 + 1
	for i := range b {
		if i%2 == 0 {
			x ^= x << 13
			x ^= x >> 17
			x ^= x << 5
		}
		b[i] = byte(x >> (8 * (i % 2)))
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Small blocks keep most runs fast; few runs use the real block size.
		block := rapid.SampledFrom([]int{200, 200, 200, 200, 1000, 1000, 1000, 1000, blockTarget}).Draw(t, "block")
		o := snapshot.WithBlocks(snapshot.WriterOptions{}, block)
		want := drawContent(t, block)
		data := want.bytes(t, o)
		f := fileOfBytes(t, data)
		want.check(t, readFile(t, f))
		if other := want.bytes(t, o); fileOfBytes(t, other).Manifest().Digest != f.Manifest().Digest {
			t.Fatal("two files with the same contents differ in the digest")
		}
		for _, c := range want.collections {
			checkGets(t, f, c)
		}
	})
}

func checkGets(t *rapid.T, f *snapshot.File, c contentOf) {
	id := c.collection.Identity
	for _, r := range c.records {
		got, ok, err := f.Get(t.Context(), id, r.Key)
		if err != nil || !ok || !sameRecord(got, r) {
			t.Fatalf("Get(%q) = %v, %v", r.Key, ok, err)
		}
		for _, other := range []string{r.Key + "\x00", r.Key[:len(r.Key)-1]} {
			_, want := slices.BinarySearchFunc(c.records, other,
				func(r entry.Entry, k string) int { return strings.Compare(r.Key, k) })
			if _, ok, err := f.Get(t.Context(), id, other); err != nil || ok != want {
				t.Fatalf("Get(%q) = %v, %v, want %v", other, ok, err, want)
			}
		}
	}
	for _, ns := range []string{"a", "b", "ccc", ""} {
		checkKeys(t, c, func(k string) bool { return strings.HasPrefix(k, ns+"/") }, func(fn func(entry.Entry) error) error {
			return f.Namespace(t.Context(), id, ns, fn)
		})
	}
}

func checkKeys(t *rapid.T, c contentOf, selects func(string) bool, read func(func(entry.Entry) error) error) {
	var want, got []string
	for _, r := range c.records {
		if selects(r.Key) {
			want = append(want, r.Key)
		}
	}
	if err := read(func(r entry.Entry) error { got = append(got, r.Key); return nil }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("keys %q, want %q", got, want)
	}
}
