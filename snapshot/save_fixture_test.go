package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

var (
	quiet = logr.Discard()

	savedPods    = entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}
	savedSecrets = entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets")}
	savedWidgets = entry.Identity{
		GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1",
			Resource: "widgets"}, Representation: entry.Unstructured,
	}
	savedNodes = entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("nodes"),
		Representation: entry.Metadata}
)

// secretText is a value in the test's Secrets; it must not appear in plain text in any file.
const secretText = "secret-text-of-the-test"

func savedPod(i int, rv string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("ns-%d", i%7), Name: fmt.Sprintf("pod-%06d", i), UID: types.UID(fmt.Sprintf("uid-%d", i)),
			ResourceVersion: rv,
			Labels:          map[string]string{"app": fmt.Sprintf("app-%d", i%5)},
			Annotations:     map[string]string{"note": strings.Repeat("x", 200)},
		},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i%9),
			Containers: []corev1.Container{{Name: "main", Image: "app:1"}}},
	}
}

func savedWidget(i int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": fmt.Sprintf("w-%04d", i), "namespace": "ns", "uid": fmt.Sprintf("w-%d", i),
			"resourceVersion": strconv.Itoa(500 + i)},
		"spec": map[string]any{"size": int64(i), "share": 0.5, "none": nil},
	}}
}

func savedSecret(i int) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("s-%d", i), UID: types.UID(fmt.Sprintf("s-%d", i)),
			ResourceVersion: strconv.Itoa(700 + i)},
		Data: map[string][]byte{"password": []byte(secretText)},
	}
}

func mustCodec(t testing.TB, example runtime.Object) codec.Codec {
	t.Helper()
	c, err := codec.For(example)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustOpen(t testing.TB, path string) *store.Store {
	t.Helper()
	s, err := store.Open(path, store.Options{Logger: &quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func listInto(t testing.TB, s *store.Store, id entry.Identity, resource entry.ResourceInfo, rv string,
	objs ...runtime.Object) *store.Collection {
	t.Helper()
	codec := mustCodec(t, objs[0])
	c, err := s.Collection(t.Context(), id, store.CollectionOptions{Codec: codec, Residency: store.None,
		Resource: resource})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{Attributes: entry.Attributes{ClusterID: "cluster-1",
		Codec: codec.Name(), Schema: codec.Fingerprint()}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Abort()
	for page := range slices.Chunk(objs, 1000) {
		if _, err := r.Page(t.Context(), page); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Commit(t.Context(), entry.Batch{ResourceVersion: rv}); err != nil {
		t.Fatal(err)
	}
	return c
}

// savedStore returns a store of 1,000 pods, 300 widgets, 3 Secrets and no node, at path.
func savedStore(t testing.TB, path string) *store.Store {
	t.Helper()
	s := mustOpen(t, path)
	var pods, widgets, secrets []runtime.Object
	for i := range 1000 {
		pods = append(pods, savedPod(i, strconv.Itoa(1000+i)))
	}
	for i := range 300 {
		widgets = append(widgets, savedWidget(i))
	}
	for i := range 3 {
		secrets = append(secrets, savedSecret(i))
	}
	listInto(t, s, savedPods, entry.ResourceInfo{Kind: "Pod", Namespaced: true, ShortNames: []string{"po"}}, "5000",
		pods...)
	listInto(t, s, savedWidgets, entry.ResourceInfo{Kind: "Widget", Namespaced: true}, "5001", widgets...)
	listInto(t, s, savedSecrets, entry.ResourceInfo{Kind: "Secret", Namespaced: true}, "5002", secrets...)
	nodes, err := s.Collection(t.Context(), savedNodes,
		store.CollectionOptions{Codec: mustCodec(t, &metav1.PartialObjectMetadata{}), Residency: store.None})
	if err != nil {
		t.Fatal(err)
	}
	r, err := nodes.BeginReplace(t.Context(), store.ReplaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Abort()
	if _, err := r.Commit(t.Context(), entry.Batch{ResourceVersion: "5003"}); err != nil {
		t.Fatal(err)
	}
	return s
}

func recordsOf(t testing.TB, src snapshot.Source, id entry.Identity) (all []entry.Entry) {
	t.Helper()
	err := src.Records(t.Context(), id, func(r entry.Entry) error {
		r.Payload = slices.Clone(r.Payload)
		all = append(all, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// wantSame checks that the sources a and b have equal collections, but that b lacks the collections in without.
func wantSame(t testing.TB, a, b snapshot.Source, without ...entry.Identity) {
	t.Helper()
	as, err := a.Collections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bs, err := b.Collections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	as = slices.DeleteFunc(as, func(c snapshot.Collection) bool {
		return slices.ContainsFunc(without, func(id entry.Identity) bool { return id.ID() == c.Identity.ID() })
	})
	if len(as) != len(bs) {
		t.Fatalf("%d collections, want %d", len(bs), len(as))
	}
	for i, x := range as {
		y := bs[i]
		if x.Identity != y.Identity || x.Attributes != y.Attributes || !x.LastContact.Equal(y.LastContact) ||
			x.ResourceVersion != y.ResourceVersion ||
			x.Complete != y.Complete || x.MustRelist != y.MustRelist || x.Objects != y.Objects ||
			x.Resource.Kind != y.Resource.Kind {
			t.Errorf("%+v,\nwant %+v", y, x)
		}
		if !slices.EqualFunc(recordsOf(t, a, x.Identity), recordsOf(t, b, x.Identity), sameRecord) {
			t.Errorf("the records of %s differ", x.Identity)
		}
	}
}

func wantSound(t testing.TB, s *store.Store) {
	t.Helper()
	if r, err := s.Check(context.Background()); err != nil || len(r.Problems) > 0 {
		t.Fatalf("check: %q, %v", r.Problems, err)
	}
}

func wantNames(t testing.TB, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, want) {
		t.Fatalf("the directory has %q, want %q", names, want)
	}
}

func mustOpenFile(t testing.TB, path string, o snapshot.OpenOptions) *snapshot.File {
	t.Helper()
	f, err := snapshot.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func mustRestore(t testing.TB, path string, o snapshot.RestoreOptions) (*store.Store, snapshot.Restored) {
	t.Helper()
	o.Import.Store.Logger = &quiet
	to := filepath.Join(t.TempDir(), "restored.db")
	got, err := snapshot.Restore(t.Context(), path, to, o)
	if err != nil {
		t.Fatal(err)
	}
	wantNames(t, filepath.Dir(to), "restored.db")
	s := mustOpen(t, to)
	wantSound(t, s)
	return s, got
}

var errStopped = errors.New("stopped by the test")

func listPods(t testing.TB, s *store.Store, n int, rv string) *store.Collection {
	t.Helper()
	var pods []runtime.Object
	for i := range n {
		pods = append(pods, savedPod(i, rv))
	}
	return listInto(t, s, savedPods, entry.ResourceInfo{Kind: "Pod", Namespaced: true, ShortNames: []string{"po"}}, rv,
		pods...)
}

// saveFile opens the store at db for reading, saves it to path and closes it. The store must not be open elsewhere.
func saveFile(
	t testing.TB, db, path string, so store.Options, o snapshot.SaveOptions,
) (saved snapshot.Saved, err error) {
	t.Helper()
	so.ReadOnly, so.Logger = true, &quiet
	s, err := store.Open(db, so)
	if err != nil {
		return saved, err
	}
	saved, err = snapshot.Save(t.Context(), snapshot.StoreSource(s), path, o)
	return saved, errors.Join(err, s.Close())
}

func restoreBytes(t testing.TB, data []byte, to string, o snapshot.RestoreOptions) (snapshot.Restored, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "restored.larder")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return snapshot.Restore(t.Context(), path, to, o)
}

func mustPart(t testing.TB, whole string, o snapshot.SelectOptions) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "part.larder")
	f := mustOpenFile(t, whole, snapshot.OpenOptions{})
	if _, err := snapshot.Save(t.Context(), f, path, snapshot.SaveOptions{Secrets: true, SelectOptions: o}); err != nil {
		t.Fatal(err)
	}
	return path
}
