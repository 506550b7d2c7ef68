package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/query"
	"github.com/larder-dev/larder/store/seal"
)

// sealing returns an Encryption that seals pods with the first of the keys.
func sealing(t *testing.T, lines ...string) *seal.Encryption {
	t.Helper()
	return &seal.Encryption{Keys: mustKeys(t, lines...), Resources: []schema.GroupResource{{Resource: "pods"}}}
}

func writeSealed(t *testing.T, path string, n int, e *seal.Encryption) {
	t.Helper()
	s := mustOpen(t, path, store.Options{Encryption: e})
	mustList(t, mustCollection(t, s, pods()), n)
	mustWidgets(t, s)
	mustClose(t, s)
}

func mustWidgets(t *testing.T, s *store.Store) *store.Collection {
	t.Helper()
	id, o := goldenWidgets()
	c, err := s.Collection(t.Context(), id, o)
	if err != nil {
		t.Fatal(err)
	}
	b := entry.Batch{ResourceVersion: "400"}
	for i := range goldenWidgetCount {
		b.Ops = append(b.Ops, entry.Op{Object: goldenWidget(i)})
	}
	if _, err := c.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return c
}

type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) logger() *logr.Logger {
	log := funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, prefix+" "+args)
	}, funcr.Options{Verbosity: 10})
	return &log
}

func (l *logged) count(words ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			n++
		}
	}
	return n
}

func (l *logged) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestSealedStoreWithTheWrongKey checks that Open with a wrong key leaves the file unchanged and in place.
func TestSealedStoreWithTheWrongKey(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store")
	right, wrong := mustKey(t, "right"), mustKey(t, "wrong")
	writeSealed(t, path, 10, sealing(t, right))
	before, id := mustRead(t, path), currentKey(t, mustKeys(t, right))
	for name, o := range map[string]store.Options{
		"write": {Encryption: sealing(t, wrong)}, "read": {Encryption: sealing(t, wrong), ReadOnly: true},
	} {
		o.Logger = &quiet
		s, err := store.Open(path, o)
		if s != nil || !errors.Is(err, seal.ErrWrongKey) || errors.Is(err, entry.ErrDamaged) {
			t.Fatalf("%s: %v", name, err)
		}
		for _, word := range []string{path, id, "wrong (", "behind the current one", "listed anew"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: the error does not name %q: %v", name, word, err)
			}
		}
		if !bytes.Equal(mustRead(t, path), before) {
			t.Errorf("%s: the file has been changed", name)
		}
		wantNames(t, dir, "store")
	}
	if _, err := store.Rekey(t.Context(), path, store.Options{Logger: &quiet,
		Encryption: sealing(t, wrong)}); !errors.Is(err, seal.ErrWrongKey) {
		t.Errorf("rekey: %v", err)
	}
	if !bytes.Equal(mustRead(t, path), before) {
		t.Error("rekey: the file has been changed")
	}
	s := mustOpen(t, path, store.Options{Encryption: sealing(t, right)})
	wantPods(t, mustCollection(t, s, pods()), 10, nil)
	mustClose(t, s)
}

// TestSealedStoreWithoutKeys checks that unsealed records and all names can be read, and the file compacted.
func TestSealedStoreWithoutKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	key := mustKey(t, "")
	writeSealed(t, path, 10, sealing(t, key))
	for _, readOnly := range []bool{true, false} {
		s := mustOpen(t, path, store.Options{ReadOnly: readOnly})
		infos, err := s.Collections(t.Context())
		if err != nil || len(infos) != 2 {
			t.Fatalf("%d collections, %v", len(infos), err)
		}
		for _, info := range infos {
			if sealed := info.Identity.Resource == "pods"; info.Sealed != sealed || info.PlainText || info.Objects == 0 {
				t.Errorf("%s: %+v", info.Identity, info)
			}
		}
		if n := len(mustKeysOf(t, s, goldenWidgetsID())); n != goldenWidgetCount {
			t.Errorf("%d widgets", n)
		}
		if c, err := s.Collection(t.Context(), pods(),
			store.CollectionOptions{Codec: mustCodec(t, &corev1.Pod{})}); c != nil || !errors.Is(err, seal.ErrSealed) ||
			!strings.Contains(err.Error(), "pods") || !strings.Contains(err.Error(), "it needs key \"") {
			t.Errorf("open it: %v", err)
		}
		wantSealedView(t, s)
		wantSound(t, s)
		mustClose(t, s)
	}
	if _, err := store.Compact(t.Context(), path, store.Options{Logger: &quiet}); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, path, store.Options{Encryption: sealing(t, key)})
	wantPods(t, mustCollection(t, s, pods()), 10, nil)
	mustClose(t, s)
	if _, err := store.Rekey(t.Context(), path, store.Options{Logger: &quiet}); err == nil ||
		!strings.Contains(err.Error(), "opened without keys") {
		t.Errorf("rekey: %v", err)
	}
}

func goldenWidgetsID() entry.Identity {
	id, _ := goldenWidgets()
	return id
}

func mustKeysOf(t *testing.T, s *store.Store, id entry.Identity) []string {
	t.Helper()
	v, err := s.View(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := v.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// wantSealedView checks that, without encryption keys, the names of the sealed pods can be read, but not the pods.
func wantSealedView(t *testing.T, s *store.Store) {
	t.Helper()
	v, err := s.ViewWith(t.Context(), pods(), mustCodec(t, &corev1.Pod{}))
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := v.Keys(t.Context()); err != nil || len(keys) != 10 || keys[0] != "namespace-0/pod-0000" {
		t.Errorf("keys %q, %v", keys, err)
	}
	ctx := t.Context()
	for name, read := range map[string]func() (any, error){
		"Get":         func() (any, error) { return v.Get(ctx, "namespace-0/pod-0000") },
		"List":        func() (any, error) { return v.List(ctx) },
		"Select":      func() (any, error) { return v.Select(ctx, query.Query{Namespace: "namespace-0"}) },
		"ByIndex":     func() (any, error) { return v.ByIndex(ctx, cache.NamespaceIndex, "namespace-0") },
		"IndexValues": func() (any, error) { return v.IndexValues(ctx, cache.NamespaceIndex) },
	} {
		if got, err := read(); !errors.Is(err, seal.ErrSealed) || isDamaged(err) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if err := s.Err(); err != nil {
		t.Errorf("the store is taken to have failed: %v", err)
	}
}

// provider is a KeyProvider like a KMS, whose calls can be made to fail.
type provider struct {
	*seal.Keys
	err error
	// If other is set, Unwrap returns a wrong key. If hangs is set, calls wait for the end of their context.
	other, hangs bool
	calls        []string
}

func (p *provider) CurrentKey(ctx context.Context) (string, error) {
	p.calls = append(p.calls, "CurrentKey")
	if p.err != nil {
		return "", p.err
	}
	return p.Keys.CurrentKey(ctx)
}

func (p *provider) Unwrap(ctx context.Context, id string, wrapped []byte) ([]byte, error) {
	p.calls = append(p.calls, "Unwrap")
	if p.hangs {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if p.other {
		return bytes.Repeat([]byte{1}, 32), nil
	}
	return p.Keys.Unwrap(ctx, id, wrapped)
}

func (p *provider) Wrap(ctx context.Context, key []byte) (string, []byte, error) {
	p.calls = append(p.calls, "Wrap")
	return p.Keys.Wrap(ctx, key)
}

// TestKeyProvider checks that Open calls the KeyProvider only as often as needed, and returns its errors.
func TestKeyProvider(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	p := &provider{Keys: mustKeys(t, mustKey(t, ""))}
	e := &seal.Encryption{Keys: p, Resources: sealing(t, mustKey(t, "")).Resources}
	writeSealed(t, path, 5, e)
	before := mustRead(t, path)
	p.calls = nil
	p.err = fmt.Errorf("dial the KMS: %w", context.DeadlineExceeded)
	if s, err := store.Open(path, store.Options{Logger: &quiet, Encryption: e}); s != nil ||
		!errors.Is(err, context.DeadlineExceeded) || errors.Is(err, seal.ErrWrongKey) {
		t.Errorf("unreachable: %v", err)
	}
	p.err, p.hangs = nil, true
	gaveUp := errors.New("the caller gave up")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, gaveUp)
	defer cancel()
	if s, err := store.OpenContext(ctx, path, store.Options{Logger: &quiet, Encryption: e}); s != nil ||
		!errors.Is(err, gaveUp) || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("a KMS that hangs: %v", err)
	}
	p.hangs, p.other = false, true
	if s, err := store.Open(path, store.Options{Logger: &quiet, Encryption: e}); s != nil ||
		!errors.Is(err, seal.ErrWrongKey) {
		t.Errorf("another key: %v", err)
	}
	if !bytes.Equal(mustRead(t, path), before) {
		t.Error("the file has been changed")
	}
	p.other, p.calls = false, nil
	s := mustOpen(t, path, store.Options{Encryption: e})
	wantPods(t, mustCollection(t, s, pods()), 5, nil)
	mustClose(t, s)
	if got := strings.Join(p.calls, " "); got != "CurrentKey Unwrap CurrentKey" {
		t.Errorf("it was asked for %s", got)
	}
	if _, err := store.Open(path, store.Options{Logger: &quiet, Encryption: &seal.Encryption{}}); err == nil ||
		!strings.Contains(err.Error(), "Keys must be set") {
		t.Errorf("no provider: %v", err)
	}
}

// TestSeals checks that Secrets are sealed by default, and collections that were sealed before in any case.
func TestSeals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	key := mustKey(t, "")
	keys := mustKeys(t, key)
	s := mustOpen(t, path, store.Options{Encryption: &seal.Encryption{Keys: keys}})
	for resource, want := range map[schema.GroupResource]bool{
		{Resource: "secrets"}: true, {Resource: "Secrets"}: true, {Resource: "pods"}: false,
		{Group: "other", Resource: "secrets"}: false,
	} {
		if s.Seals(resource) != want {
			t.Errorf("%s is sealed: %v", resource, !want)
		}
	}
	c, err := s.Collection(t.Context(), pods(), store.CollectionOptions{Codec: mustCodec(t, &corev1.Pod{}), Seal: true,
		Residency: store.None})
	if err != nil {
		t.Fatal(err)
	}
	mustList(t, c, 3)
	mustClose(t, s)
	s = mustOpen(t, path, store.Options{Encryption: &seal.Encryption{Keys: keys, Resources: []schema.GroupResource{}}})
	c = mustCollection(t, s, pods())
	applyNewer(t, c, 0, 3, 5000)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := plainRecords(s); err != nil || n > 0 || !mustInfo(t, c).Sealed {
		t.Errorf("%d records in plain text, %v", n, err)
	}
	mustClose(t, s)
	s = mustOpen(t, filepath.Join(t.TempDir(), "other"), store.Options{})
	if _, err := s.Collection(t.Context(), pods(),
		store.CollectionOptions{Codec: mustCodec(t, &corev1.Pod{}),
			Seal: true}); err == nil || !strings.Contains(err.Error(), "Encryption") {
		t.Errorf("Seal without keys: %v", err)
	}
	mustClose(t, s)
}

// TestSealedLongValues checks sealed index values that are too long for a bbolt key, and values that look like a token,
// the keyed hash that a sealed index stores.
func TestSealedLongValues(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{Encryption: sealing(t, mustKey(t, ""))})
	c, err := s.Collection(t.Context(), pods(), store.CollectionOptions{
		Codec: mustCodec(t, &corev1.Pod{}), Residency: store.None,
		Indexers: cache.Indexers{"padding": func(obj any) ([]string,
			error) {
			return []string{obj.(*corev1.Pod).Annotations["padding"]}, nil
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	values := []string{"", strings.Repeat("\x00", 20_000), strings.Repeat("v", 40_000), "\x01\x00\x01",
		tokenOf(t, c, "padding", "")}
	b := entry.Batch{ResourceVersion: "9"}
	for i, value := range values {
		p := somePod(i)
		p.Annotations["padding"] = value
		b.Ops = append(b.Ops, entry.Op{Object: p})
	}
	if _, err := c.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSound(t, s)
	for i, value := range values {
		want := somePod(i)
		want.Annotations["padding"] = value
		if objs, err := c.ByIndex(t.Context(), "padding", value); err != nil || len(objs) != 1 ||
			!equality.Semantic.DeepEqual(objs[0], want) {
			t.Errorf("value %d: %d objects, %v", i, len(objs), err)
		}
	}
	slices.Sort(values)
	if got, err := c.IndexValues(t.Context(), "padding"); err != nil || !slices.Equal(got, values) {
		t.Errorf("%d values, %v", len(got), err)
	}
	mustClose(t, s)
}

// tokenOf stores an object with this index value, and returns its token, the keyed hash in the index.
func tokenOf(t *testing.T, c *store.Collection, annotation, value string) (token string) {
	t.Helper()
	p := somePod(0)
	p.Annotations[annotation] = value
	if err := errors.Join(applyPod(t, c, p), store.StoreOf(c).Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	err := viewOf(c, func(b *bolt.Bucket) (err error) {
		k, _ := b.Bucket(disk.Index).Bucket([]byte(annotation)).Cursor().First()
		token, _, err = disk.ParseIndexEntry(k)
		return err
	})
	if err != nil || token == value {
		t.Fatalf("the token is %q, %v", token, err)
	}
	return token
}
