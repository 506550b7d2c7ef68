package snapshot_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

var updateGolden = flag.Bool("update", false, "write the golden snapshots of the current format anew")

// goldenIdentity is the age identity that decrypts the encrypted golden snapshot. It has no other use.
const goldenIdentity = "AGE-SECRET-KEY-144WYZFRMTXSYT4KUWNG07X340RX8AW3FJV2PEWTHCT9QV9LAZ24SM0SWCQ"

// goldenContent returns the contents of the golden snapshots, with every field of the manifest.
func goldenContent(t *testing.T) content {
	t.Helper()
	pods := collectionOf(core("pods"), "Pod", entry.Typed)
	pods.Attributes = entry.Attributes{ClusterID: "golden", Codec: "protobuf", Schema: "s", Transform: "t1",
		OpenAPI: "hash"}
	pods.Resource = entry.ResourceInfo{Kind: "Pod", Singular: "pod", ShortNames: []string{"po"}, Namespaced: true,
		Categories: []string{"all"}}
	pods.LastContact = time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	c := contentOf{collection: pods}
	for i := range 12 {
		c.records = append(c.records, recordOf(t, pods, fmt.Sprintf(
			`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"pod-%02d","uid":"p-%d","resourceVersion":"%d","labels":{"app":"till"}},"spec":{"containers":[{"name":"c","image":"registry/till:1"}]}}`, i, i, 100+i)))
	}
	widgets := snapshot.Collection{
		Identity: entry.Identity{
			GroupVersionResource: schema.GroupVersionResource{Group: "larder.dev", Version: "v1", Resource: "widgets"},
			Namespace:            "shop", LabelSelector: "color=red", FieldSelector: "metadata.name!=x",
			Representation: entry.Unstructured,
		},
		Resource: entry.ResourceInfo{Kind: "Widget", Singular: "widget", ShortNames: []string{"wd"}, Namespaced: true,
			Columns: []entry.Column{{Name: "Size", Type: "integer", Format: "int32", Priority: 1, JSONPath: ".spec.size"}}},
		ResourceVersion: "300", MustRelist: "objects were left out (only namespaces shop)",
		Filtered: []string{"only namespaces shop"}, Redacted: []string{"managedFields"},
	}
	of := contentOf{collection: widgets}
	for i := range 3 {
		of.records = append(of.records, recordOf(t, widgets, fmt.Sprintf(
			`{"apiVersion":"larder.dev/v1","kind":"Widget","metadata":{"namespace":"shop","name":"widget-%d","uid":"w-%d","resourceVersion":"%d"},"spec":{"size":%d,"ratio":0.5,"none":null,"empty":[],"text":"größer <&>"}}`, i, i, 200+i, i-1)))
	}
	return content{
		header: snapshot.Header{
			ClusterID: "golden", ServerVersion: "v1.36.3", TakenAt: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC),
			Larder: "v0.1.0-golden",
			Filter: &snapshot.Filter{Namespaces: []string{"shop"}}, Redaction: &snapshot.Redaction{ManagedFields: true},
		},
		collections: []contentOf{c, {collectionOf(core("nodes"), "Node", entry.Metadata), nil}, of},
	}
}

func goldenPath(format int, sealed bool) string {
	if sealed {
		return filepath.Join("testdata", fmt.Sprintf("golden-format-%d-age.larder", format))
	}
	return filepath.Join("testdata", fmt.Sprintf("golden-format-%d.larder", format))
}

func goldenIdentities(t testing.TB) []age.Identity {
	t.Helper()
	ids, err := age.ParseIdentities(strings.NewReader(goldenIdentity))
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestGolden(t *testing.T) {
	if *updateGolden {
		writeGolden(t)
	}
	want := goldenContent(t)
	for format := 1; format <= formatNow; format++ {
		for _, sealed := range []bool{false, true} {
			path := goldenPath(format, sealed)
			f, err := snapshot.Open(path, snapshot.OpenOptions{Identities: goldenIdentities(t)})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if m := f.Manifest(); int(m.Format) != format || m.Encrypted != sealed {
				t.Errorf("%s: format %d, encrypted %v", path, m.Format, m.Encrypted)
			}
			want.check(t, readFile(t, f))
			report, err := f.Verify(t.Context())
			if err != nil || len(report.Problems) > 0 || report.Objects != 15 || report.Unknown != 0 {
				t.Errorf("%s: %+v, %v", path, report, err)
			}
		}
	}
}

// TestWriterProducesGolden checks that the writer produces the golden snapshot, apart from compression.
func TestWriterProducesGolden(t *testing.T) {
	golden, err := os.ReadFile(goldenPath(formatNow, false))
	if err != nil {
		t.Fatal(err)
	}
	now := goldenContent(t).bytes(t, snapshot.WithID(snapshot.WithBlocks(snapshot.WriterOptions{}, 500), idOf(golden)))
	a, b := blocksIn(t, golden), blocksIn(t, now)
	if len(a) != len(b) {
		t.Fatalf("%d blocks, the golden snapshot has %d", len(b), len(a))
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			t.Errorf("block %d:\n%s\nthe golden snapshot has\n%s", i, hex.Dump(b[i]), hex.Dump(a[i]))
		}
	}
	without := func(data []byte) (all []map[string]any) {
		f := readSpec(data)
		all = append(all, f.header)
		for _, c := range f.collections {
			for _, compressed := range []string{"stored", "index", "indexDigest"} {
				delete(c.description, compressed)
			}
			all = append(all, c.description)
		}
		return all
	}
	if d := cmp.Diff(without(golden), without(now)); d != "" {
		t.Error(d)
	}
}

func goldenDocuments(t *testing.T) content {
	c := goldenContent(t)
	c.documents = []documentOf{
		{"discovery", []byte(strings.Repeat(`{"version":2}`, 10))}, {"openapi/api/v1", []byte("HASH\n\x28\xb5\x2f\xfd")},
		{"server-version", []byte(`{"gitVersion":"v1.36.3"}`)},
	}
	return c
}

var goldenDocumentsPath = filepath.Join("testdata", "golden-format-1-documents.larder")

func goldenWithDocuments(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile(goldenDocumentsPath)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestGoldenDocuments(t *testing.T) {
	want := goldenDocuments(t)
	o := snapshot.WithBlocks(snapshot.WriterOptions{}, 500)
	if *updateGolden {
		if err := os.WriteFile(goldenDocumentsPath, want.bytes(t, o), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden := goldenWithDocuments(t)
	f := fileOfBytes(t, golden)
	want.check(t, readFile(t, f))
	if names, err := f.Documents(t.Context()); err != nil || !slices.IsSorted(names) || len(names) != 3 {
		t.Errorf("%q, %v", names, err)
	}
	if data, err := f.Document(t.Context(), "none"); err != nil || data != nil {
		t.Errorf("a document that there is not: %q, %v", data, err)
	}
	now := want.bytes(t, snapshot.WithID(o, idOf(golden)))
	a, b := readSpec(golden), readSpec(now)
	if d := cmp.Diff(a.documents, b.documents, cmp.AllowUnexported(documentOf{})); d != "" {
		t.Error(d)
	}
}

func writeGolden(t *testing.T) {
	t.Helper()
	identity, ok := goldenIdentities(t)[0].(*age.X25519Identity)
	if !ok {
		t.Fatal("the golden identity is of another type")
	}
	for _, sealed := range []bool{false, true} {
		o := snapshot.WithBlocks(snapshot.WriterOptions{}, 500)
		if sealed {
			o.Recipients = []age.Recipient{identity.Recipient()}
		}
		if err := os.WriteFile(goldenPath(formatNow, sealed), goldenContent(t).bytes(t, o), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
