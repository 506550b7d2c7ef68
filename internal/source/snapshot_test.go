package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

var takenAt = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// part is a collection of a snapshot that a test writes.
type part struct {
	id      entry.Identity
	r       entry.ResourceInfo
	objects []runtime.Object
}

type parts struct {
	t   *testing.T
	all []part
}

func (p parts) Collections(context.Context) (all []snapshot.Collection, err error) {
	for _, one := range p.all {
		all = append(all, snapshot.Collection{
			Identity: one.id, Resource: one.r, ResourceVersion: "5", Complete: true, LastContact: takenAt.Add(-time.Minute),
		})
	}
	return all, nil
}

func (p parts) Records(_ context.Context, id entry.Identity, fn func(entry.Entry) error) error {
	i := slices.IndexFunc(p.all, func(one part) bool { return one.id.ID() == id.ID() })
	for _, obj := range p.all[i].objects {
		if err := fn(recordOf(p.t, obj)); err != nil {
			return err
		}
	}
	return nil
}

func writeSnapshot(t *testing.T, all []part, recipients ...age.Recipient) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.larder")
	_, err := snapshot.Save(t.Context(), parts{t, all}, path, snapshot.SaveOptions{Recipients: recipients, Secrets: true,
		Header: snapshot.Header{ClusterID: "c", ServerVersion: "v1.36.3", TakenAt: takenAt, Larder: "test"}})
	must(t, err)
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func recordOf(t *testing.T, obj runtime.Object) entry.Entry {
	t.Helper()
	codec, err := codec.For(obj)
	must(t, err)
	payload, err := codec.Append(nil, obj)
	must(t, err)
	m := obj.(metav1.Object)
	key := m.GetName()
	if m.GetNamespace() != "" {
		key = m.GetNamespace() + "/" + key
	}
	return entry.Entry{Key: key, UID: string(m.GetUID()), ResourceVersion: m.GetResourceVersion(), Encoding: codec.Name(),
		Payload: payload}
}

func podsOf(r entry.Representation, objects ...runtime.Object) part {
	return part{entry.Identity{GroupVersionResource: podsGVR, Representation: r},
		entry.ResourceInfo{Kind: "Pod", Namespaced: true}, objects}
}

func openSource(t *testing.T, path string, o Options) Source {
	t.Helper()
	src, err := Open(context.Background(), path, o)
	must(t, err)
	t.Cleanup(func() { _ = src.Close() })
	return src
}

func TestSnapshotAnswersQueries(t *testing.T) {
	ctx := context.Background()
	web := map[string]string{"app": "web"}
	meta := func(namespace, name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u", ResourceVersion: "5", Labels: labels}
	}
	parts := []part{podsOf(entry.Unstructured), podsOf(entry.Typed), podsOf(entry.Metadata)}
	for _, k := range []struct {
		namespace, name string
		labels          map[string]string
	}{{"a-b", "x", web}, {"a", "w", web}, {"a", "x", nil}, {"b", "x", web}} {
		m := meta(k.namespace, k.name, k.labels)
		parts[0].objects = append(parts[0].objects, pod(k.namespace, k.name, k.labels))
		parts[1].objects = append(parts[1].objects,
			&corev1.Pod{ObjectMeta: m, Spec: corev1.PodSpec{NodeName: "n-" + k.namespace}})
		parts[2].objects = append(parts[2].objects, &metav1.PartialObjectMetadata{ObjectMeta: m})
	}
	src := openSource(t, writeSnapshot(t, parts), Options{})
	for _, p := range parts {
		for _, tc := range []struct {
			q    Query
			want []string
		}{
			{Query{}, []string{"a-b/x", "a/w", "a/x", "b/x"}},
			{Query{Namespace: "a"}, []string{"a/w", "a/x"}},
			{Query{Namespace: "none"}, []string{}},
			{Query{Namespace: "a", Name: "x"}, []string{"a/x"}},
			{Query{Namespace: "a", Name: "none"}, []string{}},
			{Query{Selector: "app=web"}, []string{"a-b/x", "a/w", "b/x"}},
			{Query{Namespace: "a", Name: "x", Selector: "app=web"}, []string{}},
			{Query{Fields: "metadata.name=x,metadata.namespace!=b"}, []string{"a-b/x", "a/x"}},
		} {
			tc.q.Collection = p.id.ID()
			got, err := collect(ctx, src, tc.q)
			if d := cmp.Diff(tc.want, got); d != "" || err != nil {
				t.Errorf("%s %+v: %s, %v", p.id.Representation, tc.q, d, err)
			}
		}
	}
	typed := Collection{ID: parts[1].id.ID(), Version: "v1", Resource: "pods", Kind: "Pod", Representation: "typed"}
	err := Objects(ctx, src, typed, Query{Namespace: "b"}, func(u *unstructured.Unstructured) error {
		if node, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName"); node != "n-b" {
			t.Errorf("spec.nodeName is %q", node)
		}
		return nil
	})
	must(t, err)
	if _, err := collect(ctx, src, Query{Collection: "none"}); !errors.Is(err, ErrNoCollection) {
		t.Errorf("got %v", err)
	}
}

func TestSnapshotStatusAndCheck(t *testing.T) {
	ctx := context.Background()
	path := writeSnapshot(t, []part{podsOf(entry.Unstructured, identified(pod("a", "x", nil)))})
	src := openSource(t, path, Options{})
	st, err := src.Status(ctx)
	must(t, err)
	want := &SnapshotInfo{TakenAt: takenAt, ClusterID: "c", ServerVersion: "v1.36.3", Larder: "test", Format: 1}
	if d := cmp.Diff(want, st.Snapshot); d != "" || st.Bytes == 0 || st.Store != path {
		t.Errorf("%s %+v", d, st)
	}
	c := st.Collections[0]
	if c.Objects != 1 || !c.Complete || c.ResourceVersion != "5" || c.Kind != "Pod" || !c.TakenAt.Equal(takenAt) ||
		c.Identity().ID() != c.ID {
		t.Errorf("%+v", c)
	}
	report, err := src.Check(ctx)
	if err != nil || report.Objects != 1 || report.Collections != 1 || len(report.Problems) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
}

func identified(u *unstructured.Unstructured) *unstructured.Unstructured {
	u.SetUID("u")
	u.SetResourceVersion("5")
	return u
}

// TestSnapshotOfAnUnknownType checks a collection whose objects have a Go type that this program does not know. Its
// description is readable, and reading the objects returns an error.
func TestSnapshotOfAnUnknownType(t *testing.T) {
	ctx := context.Background()
	id := entry.Identity{GroupVersionResource: schema.GroupVersionResource{Group: "own.io", Version: "v1",
		Resource: "things"}, Representation: entry.Typed}
	things := part{id, entry.ResourceInfo{Kind: "Thing", Namespaced: true},
		[]runtime.Object{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", UID: "u"}}}}
	src := openSource(t, writeSnapshot(t, []part{things}), Options{})
	st, err := src.Status(ctx)
	if err != nil || st.Collections[0].Objects != 1 {
		t.Fatalf("%+v, %v", st, err)
	}
	err = Objects(ctx, src, st.Collections[0], Query{}, func(*unstructured.Unstructured) error { return nil })
	if !errors.Is(err, entry.ErrIncompatible) || !strings.Contains(err.Error(), "own type Thing") {
		t.Errorf("got %v", err)
	}
	if report, err := src.Check(ctx); err != nil || len(report.Problems) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
}

// bulky returns a collection of n pods, each of which fills a block of a snapshot.
func bulky(n int) part {
	p := podsOf(entry.Unstructured)
	for i := range n {
		u := identified(pod("a", fmt.Sprintf("p%02d", i), nil))
		var noise strings.Builder
		for j := range 20000 {
			fmt.Fprintf(&noise, "%x-%x ", i, j*j*7919)
		}
		u.SetAnnotations(map[string]string{"noise": noise.String() + strings.Repeat("x", 256<<10)})
		p.objects = append(p.objects, u)
	}
	return p
}

func TestSnapshotDamaged(t *testing.T) {
	ctx := context.Background()
	p := bulky(4)
	whole := writeSnapshot(t, []part{p})
	data, err := os.ReadFile(whole)
	must(t, err)
	for _, tc := range []struct {
		name   string
		damage func([]byte) []byte
		want   []string
		names  string
	}{
		{"altered", func(b []byte) []byte { b[blockAt(t, whole, 1)+100] ^= 1; return b }, []string{"a/p00", "a/p02", "a/p03"},
			`keys "a/p01" to "a/p01"`},
		{"two blocks", func(b []byte) []byte { b[blockAt(t, whole, 1)+100] ^= 1; b[blockAt(t, whole, 2)+100] ^= 1; return b },
			[]string{"a/p00", "a/p03"}, `keys "a/p02" to "a/p02"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "d.larder")
			must(t, os.WriteFile(path, tc.damage(bytes.Clone(data)), 0o600))
			src := openSource(t, path, Options{})
			for range 2 {
				got, err := collect(ctx, src, Query{Collection: p.id.ID()})
				var unreadable *UnreadableError
				if d := cmp.Diff(tc.want, got); d != "" || !errors.As(err, &unreadable) || unreadable.Count != 4-len(tc.want) ||
					unreadable.AtLeast || !errors.Is(err, entry.ErrDamaged) {
					t.Fatalf("%s %v", d, err)
				}
				if !strings.Contains(err.Error(), tc.names) || !strings.Contains(err.Error(), "the snapshot is damaged in block") ||
					strings.Contains(err.Error(), "noise") {
					t.Errorf("got %v", err)
				}
			}
			if got, err := collect(ctx, src, Query{Collection: p.id.ID(), Namespace: "a", Name: "p00"}); err != nil ||
				len(got) != 1 {
				t.Errorf("an object of another block: %v, %v", got, err)
			}
			if report, err := src.Check(ctx); err != nil || len(report.Problems) == 0 ||
				!strings.Contains(report.Problems[0], "block") {
				t.Errorf("%+v, %v", report, err)
			}
		})
	}
}

func TestSnapshotCutShort(t *testing.T) {
	whole := writeSnapshot(t, []part{bulky(4)})
	path := filepath.Join(t.TempDir(), "d.larder")
	writeFile(t, path, readFile(t, whole)[:blockAt(t, whole, 2)+100])
	if _, err := Open(t.Context(), path, Options{}); !errors.Is(err, snapshot.ErrDamaged) ||
		!strings.Contains(err.Error(), "it was cut short") {
		t.Errorf("%v", err)
	}
}

// blockAt returns the offset of block number n in a snapshot's file, from an error about that block's damage.
func blockAt(t *testing.T, path string, n int) int {
	t.Helper()
	data := readFile(t, path)
	clear(data[100 : len(data)*9/10]) // damage in every block, but not in the index of the snapshot
	f, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{})
	must(t, err)
	err = f.Records(t.Context(), f.Manifest().Collections[0].Identity, func(entry.Entry) error { return nil })
	var missing *snapshot.MissingError
	if !errors.As(err, &missing) || len(missing.Damage) <= n {
		t.Fatal(err)
	}
	return int(missing.Damage[n].Offset)
}

func TestSnapshotEncrypted(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	must(t, err)
	p := podsOf(entry.Unstructured, identified(pod("a", "x", nil)))
	path := writeSnapshot(t, []part{p}, key.Recipient())
	src := openSource(t, path, Options{Identities: []age.Identity{key}})
	if got, err := collect(context.Background(), src, Query{Collection: p.id.ID()}); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	st, err := src.Status(context.Background())
	if err != nil || !st.Snapshot.Encrypted {
		t.Errorf("%+v, %v", st, err)
	}
	other, err := age.GenerateX25519Identity()
	must(t, err)
	if _, err := Open(context.Background(), path, Options{Identities: []age.Identity{other}}); !errors.Is(err,
		snapshot.ErrIdentity) {
		t.Errorf("got %v", err)
	}
	if _, err := Open(context.Background(), path, Options{}); !errors.Is(err, snapshot.ErrEncrypted) {
		t.Errorf("got %v", err)
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return data
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	must(t, os.WriteFile(path, data, 0o600))
}
