package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/store"
)

func importOf(info entry.Info) (store.ImportCollection, store.ImportState) {
	return store.ImportCollection{Identity: info.Identity, Attributes: info.Attributes, Resource: info.Resource},
		store.ImportState{ResourceVersion: info.ResourceVersion, Complete: info.Complete, MustRelist: info.MustRelist,
			LastContact: info.LastContact}
}

func importAll(ctx context.Context, from *store.Store, path string, o store.ImportOptions) error {
	i, err := store.NewImport(ctx, path, o)
	if err != nil {
		return err
	}
	infos, err := from.Collections(ctx)
	for _, info := range infos {
		if err == nil {
			err = importOne(ctx, from, i, info)
		}
	}
	if err == nil {
		err = i.Commit(ctx)
	}
	return errors.Join(err, i.Abort())
}

func importOne(ctx context.Context, from *store.Store, i *store.Import, info entry.Info) error {
	what, as := importOf(info)
	if err := i.Begin(ctx, what); err != nil {
		return err
	}
	err := from.Records(ctx, info.Identity, "", func(r entry.Entry) error {
		defer clear(r.Payload) // Add must have copied the payload
		return i.Add(ctx, r)
	})
	if err != nil {
		return err
	}
	n, err := i.End(ctx, as)
	if err == nil && n != info.Objects {
		err = fmt.Errorf("%d objects of %d", n, info.Objects)
	}
	return err
}

func mustImport(t *testing.T, from *store.Store, path string, o store.ImportOptions) {
	t.Helper()
	if o.Store.Logger == nil {
		o.Store.Logger = &quiet
	}
	o.Store = store.WithPageSize(o.Store, filePageSize)
	if err := importAll(t.Context(), from, path, o); err != nil {
		t.Fatal(err)
	}
}

// TestImport checks that an imported store passes Store.Check, counts as cleanly closed, and builds its indexes.
func TestImport(t *testing.T) {
	from, many, few := filled(t, store.AtOnce(store.Options{}))
	if err := few.SetMustRelist(t.Context(), "asked to"); err != nil {
		t.Fatal(err)
	}
	contact := time.Unix(1_700_000_000, 0)
	_, err := many.Apply(t.Context(), entry.Batch{ResourceVersion: "9000", LastContact: contact,
		Ops: []entry.Op{{Object: somePod(3)}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a", "store")
	mustImport(t, from, path, store.ImportOptions{})
	wantNames(t, filepath.Dir(path), "store")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if !closedCleanly(t, path) {
		t.Error("the new store was not closed cleanly")
	}
	s := mustOpen(t, path, store.Options{})
	wantSound(t, s)
	c := mustCollection(t, s, pods())
	store.WaitBuilds(c)
	objs, err := c.ByIndex(t.Context(), cache.NamespaceIndex, "namespace-2")
	if err != nil || len(objs) != 200 || !store.IndexReady(c, cache.NamespaceIndex) {
		t.Errorf("%d pods in a namespace, ready %v, %v", len(objs), store.IndexReady(c, cache.NamespaceIndex), err)
	}
	want, got := mustInfo(t, many), mustInfo(t, c)
	if got.ResourceVersion != "9000" || !got.Complete || got.MustRelist != "" || got.Objects != 1000 ||
		!got.LastContact.Equal(contact) ||
		got.Attributes != want.Attributes || len(got.Newest) != 8 || got.Newest[0] != want.Newest[0] || got.NextSeq != 1001 {
		t.Errorf("%+v,\nwant %+v", got, want)
	}
	wantPods(t, c, 1000, nil)
	if why := mustInfo(t, mustCollection(t, s, few.Identity())).MustRelist; why != "asked to" {
		t.Errorf("the other one must be listed: %q", why)
	}
	wantSound(t, s)
}

// TestImportOfEveryForm imports typed, unstructured and metadata-only objects, compressed or not.
func TestImportOfEveryForm(t *testing.T) {
	for name, form := range map[string]struct {
		example runtime.Object
		object  func(i int) runtime.Object
	}{
		"typed":        {&corev1.Pod{}, func(i int) runtime.Object { return somePod(i) }},
		"unstructured": {&unstructured.Unstructured{}, unstructuredPod},
		"metadata": {&metav1.PartialObjectMetadata{}, func(i int) runtime.Object {
			return &metav1.PartialObjectMetadata{ObjectMeta: somePod(i).ObjectMeta}
		}},
	} {
		for _, before := range []store.Compression{store.NoCompression, store.Zstd} {
			for _, after := range []store.Compression{store.NoCompression, store.Zstd} {
				if before == after && name != "typed" && soaked(0, 1) == 0 {
					continue
				}
				t.Run(fmt.Sprintf("%s,%s,%s", name, before, after), func(t *testing.T) {
					testImportOfForm(t, entry.Identity{GroupVersionResource: pods().GroupVersionResource,
						Representation: entry.Representation(name)},
						mustCodec(t, form.example), form.object, before, after)
				})
			}
		}
	}
}

func unstructuredPod(i int) runtime.Object {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(somePod(i))
	if err != nil {
		panic(err)
	}
	m["status"] = map[string]any{"count": int64(i), "share": 0.5, "none": nil, "empty": []any{}}
	u := &unstructured.Unstructured{Object: m}
	u.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	return u
}

func testImportOfForm(t *testing.T, id entry.Identity, codec codec.Codec, object func(i int) runtime.Object, before,
	after store.Compression) {
	const objects = 1500
	open := func(s *store.Store, compression store.Compression) *store.Collection {
		c, err := s.Collection(t.Context(), id, store.CollectionOptions{Codec: codec, Residency: store.None,
			Compression: compression})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	from := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.AtOnce(store.Options{}))
	c := open(from, before)
	r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{Attributes: entry.Attributes{ClusterID: "c",
		Codec: codec.Name(), Schema: codec.Fingerprint()}})
	if err != nil {
		t.Fatal(err)
	}
	var all []runtime.Object
	for i := range objects {
		all = append(all, object(i))
	}
	if _, err := r.Page(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Commit(t.Context(), entry.Batch{ResourceVersion: "9999"}); err != nil {
		t.Fatal(err)
	}
	if err := from.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "store")
	mustImport(t, from, path, store.ImportOptions{Compression: after})
	s := mustOpen(t, path, store.Options{})
	wantSound(t, s)
	imported := open(s, after)
	if _, packed, _ := compressionOf(t, imported); (packed > objects/2) != (after == store.Zstd) {
		t.Errorf("%d of %d records are compressed", packed, objects)
	}
	if got, want := mustInfo(t, imported).Attributes, mustInfo(t, c).Attributes; got != want || got.Codec != codec.Name() {
		t.Errorf("attributes %+v, want %+v", got, want)
	}
	wantEqualObjects(t, c, imported)
}

func wantEqualObjects(t *testing.T, a, b *store.Collection) {
	t.Helper()
	as, bs := mustRecords(t, store.StoreOf(a), a.Identity()), mustRecords(t, store.StoreOf(b), b.Identity())
	if len(as) != len(bs) {
		t.Fatalf("%d and %d objects", len(as), len(bs))
	}
	for i := range as {
		if x, y := as[i], bs[i]; x.Key != y.Key || x.UID != y.UID || x.ResourceVersion != y.ResourceVersion ||
			x.Encoding != y.Encoding || string(x.Payload) != string(y.Payload) {
			t.Fatalf("%s and %s differ", x.Key, y.Key)
		}
	}
}

func TestImportRefuses(t *testing.T) {
	ctx := t.Context()
	whole := store.ImportCollection{Identity: pods()}
	ends := func(st store.ImportState) func(i *store.Import) error {
		return func(i *store.Import) error { _ = i.Begin(ctx, whole); _, err := i.End(ctx, st); return err }
	}
	record := func(key string) entry.Entry {
		return entry.Entry{Key: key, Encoding: "protobuf", Payload: []byte("x")}
	}
	for name, test := range map[string]struct {
		steps func(i *store.Import) error
		want  string
	}{
		"no identity": {func(i *store.Import) error { return i.Begin(ctx, store.ImportCollection{}) },
			"must not be empty"},
		"a resourceVersion":   {ends(store.ImportState{ResourceVersion: "x1"}), "cannot be compared"},
		"no resourceVersion":  {ends(store.ImportState{Complete: true}), "neither"},
		"a record before all": {func(i *store.Import) error { return i.Add(ctx, record("a/b")) }, "begun"},
		"an end before all": {func(i *store.Import) error { _, err := i.End(ctx, store.ImportState{}); return err },
			"begun"},
		"twice": {func(i *store.Import) error {
			_ = i.Begin(ctx, whole)
			_, _ = i.End(ctx, store.ImportState{})
			return i.Begin(ctx, whole)
		}, "once"},
		"two at a time": {func(i *store.Import) error {
			_ = i.Begin(ctx, whole)
			return i.Begin(ctx, store.ImportCollection{Identity: otherPods()})
		}, "has not been ended"},
		"a commit too soon": {func(i *store.Import) error { _ = i.Begin(ctx, whole); return i.Commit(ctx) },
			"has not been ended"},
		"no key": {func(i *store.Import) error { _ = i.Begin(ctx, whole); return i.Add(ctx, record("")) },
			"1 to 16384 bytes"},
		"a long key": {func(i *store.Import) error {
			_ = i.Begin(ctx, whole)
			return i.Add(ctx, record(strings.Repeat("x", entry.MaxKey+1)))
		}, "1 to 16384 bytes"},
		"a long UID": {func(i *store.Import) error {
			_ = i.Begin(ctx, whole)
			return i.Add(ctx, entry.Entry{Key: "a", Encoding: "protobuf", UID: strings.Repeat("u", 1025)})
		}, "more than the 1024 bytes"},
		"no encoding": {func(i *store.Import) error { _ = i.Begin(ctx, whole); return i.Add(ctx, entry.Entry{Key: "a"}) },
			"encoding"},
		"disorder": {func(i *store.Import) error {
			_ = i.Begin(ctx, whole)
			_ = i.Add(ctx, record("a/b"))
			return i.Add(ctx, record("a/b"))
		}, "key order"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store")
			i, err := store.NewImport(ctx, path, store.ImportOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := test.steps(i); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if err := i.Abort(); err != nil {
				t.Error(err)
			}
			wantNames(t, filepath.Dir(path))
			if err := errors.Join(i.Abort()); err != nil {
				t.Errorf("aborted twice: %v", err)
			}
			if i.Begin(ctx, whole) == nil || i.Add(ctx, record("a")) == nil || i.Commit(ctx) == nil {
				t.Error("it goes on after Abort")
			}
		})
	}
	if _, err := store.NewImport(ctx, "", store.ImportOptions{}); err == nil {
		t.Error("a store without a name")
	}
	if _, err := store.NewImport(ctx, filepath.Join(t.TempDir(), "s"),
		store.ImportOptions{Compression: "lzma"}); err == nil {
		t.Error("an unknown compression")
	}
}

// TestImportWhereAFileIs checks that an import overwrites no file, not even a file that appears during the import.
func TestImportWhereAFileIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	i, err := store.NewImport(t.Context(), path, store.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(path, store.Options{LockTimeout: -1}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("opened meanwhile: %v", err)
	}
	if _, err := store.NewImport(t.Context(), path,
		store.ImportOptions{Store: store.Options{LockTimeout: -1}}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("another import: %v", err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := i.Commit(t.Context()); !errors.Is(err, store.ErrExists) {
		t.Errorf("it appeared meanwhile: %v", err)
	}
	wantNames(t, filepath.Dir(path), "store")
	if _, err := store.NewImport(t.Context(), path, store.ImportOptions{}); !errors.Is(err, store.ErrExists) {
		t.Errorf("it is there: %v", err)
	}
	if data, err := os.ReadFile(path); string(data) != "mine" {
		t.Errorf("%q, %v", data, err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	if _, err := store.NewImport(t.Context(), link, store.ImportOptions{}); !errors.Is(err, store.ErrExists) {
		t.Errorf("a dangling link: %v", err)
	}
}

func TestImportWithoutSpace(t *testing.T) {
	from, many, _ := filled(t, store.AtOnce(store.Options{}))
	mustUpdate(t, many)
	limits := map[string]store.ImportOptions{"MaxSize": {Store: store.Options{Logger: &quiet, MaxSize: 4 << 20}}}
	dirs := map[string]string{"MaxSize": t.TempDir()}
	if dir, ok := mountSmall(t); ok {
		limits["a small disk"], dirs["a small disk"] = store.ImportOptions{Store: store.Options{Logger: &quiet}}, dir
	}
	for name, o := range limits {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dirs[name], "store")
			if err := importAll(t.Context(), from, path, o); !errors.Is(err, store.ErrNoSpace) ||
				errors.Is(err, store.ErrOutcomeUnknown) {
				t.Errorf("%v", err)
			}
			wantNames(t, dirs[name])
		})
	}
	if dir, ok := mountSmall(t); ok {
		s := mustOpen(t, filepath.Join(dir, "store"), store.AtOnce(store.Options{}))
		mustList(t, mustCollection(t, s, otherPods()), 200)
		if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 8<<20), 0o600); err == nil {
			t.Fatal("the disk is not full")
		}
		name, err := s.CopyFile(t.Context())
		if !errors.Is(err, store.ErrNoSpace) || name != "" || s.Err() != nil {
			t.Errorf("a copy: %q, %v", name, err)
		}
		wantNames(t, dir, "ballast", "store")
	}
}

// TestImportOnAFailingDisk checks that an import reports a failed commit as ErrOutcomeUnknown and leaves no file.
func TestImportOnAFailingDisk(t *testing.T) {
	from, _, _ := filled(t, store.AtOnce(store.Options{}))
	for after := range 5 {
		n := 0
		hooks := &hook.Hooks{Commit: func(commit func() error) error {
			if n++; n > after {
				return errors.New("a test: the disk fails")
			}
			return commit()
		}}
		path := filepath.Join(t.TempDir(), "store")
		err := importAll(t.Context(), from, path, store.ImportOptions{Store: store.Options{Logger: &quiet, Hooks: hooks}})
		if err == nil || !errors.Is(err, store.ErrOutcomeUnknown) {
			t.Errorf("after %d commits: %v", after, err)
		}
		wantNames(t, filepath.Dir(path))
	}
}
