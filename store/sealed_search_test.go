package store_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// hiddenWords are unique words that a test hides in objects and searches for in files, in all encodings.
type hiddenWords struct {
	dir   string
	forms map[string][][]byte
	mu    sync.Mutex
	found map[string]string // for each found word, the file or log that has it; guarded by mu
}

func newHiddenWords(dir string) *hiddenWords {
	return &hiddenWords{dir: dir, forms: map[string][][]byte{}, found: map[string]string{}}
}

func (p *hiddenWords) word(what string) string {
	word := "larder-planted-" + strings.ReplaceAll(what, " ", "-") + "-0123456789"
	p.add(what, []byte(word))
	return word
}

// add registers a word's encodings: plain, as in msgpack, hexadecimal, and base64 at each of three alignments.
func (p *hiddenWords) add(what string, word []byte) {
	forms := [][]byte{word, []byte(hex.EncodeToString(word))}
	for skip := range 3 {
		part := word[skip:]
		forms = append(forms, []byte(base64.StdEncoding.EncodeToString(part[:len(part)/3*3])))
	}
	p.forms[what] = forms
}

func (p *hiddenWords) search(when string) {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(p.dir, e.Name()))
		if err == nil { // an error means that the file was removed before it could be read
			p.look(when+", in "+e.Name(), data)
		}
	}
}

func (p *hiddenWords) look(where string, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for what, forms := range p.forms {
		if slices.ContainsFunc(forms, func(form []byte) bool { return bytes.Contains(data, form) }) {
			p.found[what] = where
		}
	}
}

// whileSearching searches all files while fn runs, and counts how often it saw a file with the suffix.
func (p *hiddenWords) whileSearching(when, suffix string, fn func()) (seen int) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			if len(disk.Beside(filepath.Join(p.dir, "store"), suffix)) > 0 {
				seen++
			}
			p.search(when)
			select {
			case <-done:
				return
			default:
			}
		}
	})
	fn()
	close(done)
	wg.Wait()
	return seen
}

func secretWith(i int, rv string, fill func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: fmt.Sprintf("secret-%03d", i), UID: "u", ResourceVersion: rv,
			Labels: map[string]string{}, Annotations: map[string]string{"padding": strings.Repeat(fmt.Sprint(i, " "), 200)},
		},
		Data: map[string][]byte{},
	}
	if fill != nil {
		fill(s)
	}
	return s
}

func byOwner(obj any) ([]string, error) {
	o, ok := obj.(metav1.Object)
	if !ok {
		return nil, errors.New("no object")
	}
	var values []string
	for _, name := range []string{"owner", "long"} {
		if value := o.GetAnnotations()[name]; value != "" {
			values = append(values, value)
		}
	}
	return values, nil
}

// operations performs all operations of a store that may write part of an object to a file.
type operations struct {
	t           *testing.T
	p           *hiddenWords
	log         *logged
	o           store.Options
	codec       codec.Codec
	as          func(runtime.Object) runtime.Object
	compression store.Compression
	rv          int
}

func (x *operations) open() (*store.Store, *store.Collection) {
	x.t.Helper()
	s := mustOpen(x.t, filepath.Join(x.p.dir, "store"), x.o)
	id := entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}}
	if x.codec.Name() == "msgpack" {
		id.Representation = entry.Unstructured
	}
	c, err := s.Collection(x.t.Context(), id, store.CollectionOptions{
		Codec: x.codec, Compression: x.compression, Residency: store.None, Indexers: cache.Indexers{"owner": byOwner},
		IndexVersions: map[string]string{"owner": "1"},
	})
	if err != nil {
		x.t.Fatal(err)
	}
	if x.compression != store.NoCompression {
		store.SetSampling(c, 4<<10, 16<<10)
	}
	return s, c
}

func (x *operations) apply(s *store.Store, c *store.Collection, op entry.OpType, objs ...*corev1.Secret) {
	x.t.Helper()
	x.rv += 10
	b := entry.Batch{ResourceVersion: fmt.Sprint(x.rv)}
	for _, obj := range objs {
		obj.ResourceVersion = fmt.Sprint(x.rv)
		b.Ops = append(b.Ops, entry.Op{Type: op, Object: x.as(obj)})
	}
	res, err := c.Apply(x.t.Context(), b)
	if err == nil {
		err = s.Flush(x.t.Context())
	}
	if err != nil || len(res.Skipped) > 0 {
		x.t.Fatal(res.Skipped, err)
	}
	x.p.search("after a commit")
}

// run performs all operations with words hidden in the objects, and searches the files after each operation.
func (x *operations) run() {
	t, p := x.t, x.p
	s, c := x.open()
	sample := p.word("a sample") // this word is in the objects from which the dictionary is built
	x.list(c, &sample)
	mustOpenCursor(t, c, "handler")

	last := p.word("an old state") // this word is in a state that is overwritten, so that its page is free afterwards
	x.apply(s, c, entry.Upsert, secretWith(1, "", func(s *corev1.Secret) { s.Data["k"] = []byte(last) }))
	data, annotation, label, owner := p.word("data"), p.word("an annotation"), p.word("a label"), p.word("an index value")
	long := strings.Repeat("x", 40_000) + p.word("a long index value")
	x.apply(s, c, entry.Upsert, secretWith(1, "", func(s *corev1.Secret) {
		s.Data["k"], s.Labels["l"] = []byte(data), label
		s.Annotations["a"], s.Annotations["owner"], s.Annotations["long"] = annotation, owner, long
	}))
	if keys, err := c.IndexKeys(t.Context(), "owner", owner); err != nil || len(keys) != 1 {
		t.Fatalf("%q, %v", keys, err)
	}
	gone := p.word("a tombstone")
	x.apply(s, c, entry.Upsert, secretWith(2, "", nil))
	x.apply(s, c, entry.Delete, secretWith(2, "", func(s *corev1.Secret) { s.Data["k"] = []byte(gone) }))

	store.SetLimits(c, 100, 1<<20) // at this limit, lists do not hold back their changes
	abandoned := p.word("an abandoned list")
	r := x.list(c, &abandoned)
	r.Abort()
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	listed := p.word("a list")
	x.list(c, &listed)

	copies := p.whileSearching("while compacting", disk.SuffixNew, func() {
		for range 3 {
			if _, err := s.Compact(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	x.damage(s)
	x.list(c, &listed)
	flush(t, s)
	copies += p.whileSearching("while copying after a failed sync", disk.SuffixNew, func() {
		failNow(t, s)
		mustCopyAgain(t, s)
	})
	if x.o.Encryption != nil {
		copies += p.whileSearching("while rekeying", disk.SuffixNew, func() { mustRekey(t, s) })
	}
	if copies == 0 {
		t.Log("no copy was seen while it was being made") // no failure: TestKilledWhileRekeying checks such copies
	}
	x.addIndex(c)
	wantSound(t, s)
	mustClose(t, s)
	p.search("after it was closed")
	p.look("in the log", []byte(x.log.text()))
}

func (x *operations) list(c *store.Collection, word *string) store.Replacement {
	x.t.Helper()
	r, err := c.BeginReplace(x.t.Context(), store.ReplaceOptions{})
	if err != nil {
		x.t.Fatal(err)
	}
	x.rv += 10
	for i := range 20 {
		obj := secretWith(i, fmt.Sprint(x.rv), func(s *corev1.Secret) {
			s.Data["listed"], s.Annotations["owner"] = []byte(*word), *word
		})
		if _, err := r.Page(x.t.Context(), []runtime.Object{x.as(obj)}); err != nil {
			x.t.Fatal(err)
		}
		if i%8 == 7 {
			x.p.search("while a list is being taken in")
		}
	}
	if strings.Contains(*word, "abandoned") {
		return r
	}
	for more := true; more; {
		res, err := r.Commit(x.t.Context(), entry.Batch{ResourceVersion: fmt.Sprint(x.rv)})
		if err != nil {
			x.t.Fatal(err)
		}
		more = res.More
	}
	x.p.search("after a list")
	return r
}

// damage flips a bit in a record and reads the record, so that the store notices the damage.
func (x *operations) damage(s *store.Store) {
	x.t.Helper()
	err := store.UpdateFile(context.Background(), s, func(tx *bolt.Tx) error {
		return tx.Bucket(disk.Root).ForEachBucket(func(name []byte) error {
			objects := tx.Bucket(disk.Root).Bucket(name).Bucket(disk.Objects)
			k, v := objects.Cursor().First()
			v = bytes.Clone(v)
			v[len(v)-1] ^= 1
			return objects.Put(k, v)
		})
	})
	if err != nil {
		x.t.Fatal(err)
	}
	if err := s.Scrub(x.t.Context()); !errors.Is(err, entry.ErrDamaged) {
		x.t.Errorf("scrub: %v", err)
	}
}

// addIndex adds an index whose function fails on some objects, which is logged.
func (x *operations) addIndex(c *store.Collection) {
	x.t.Helper()
	err := c.AddIndexers(context.Background(), cache.Indexers{"other": func(obj any) ([]string, error) {
		values, err := byOwner(obj)
		if len(values) == 0 {
			panic(obj)
		}
		return values, err
	}}, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	store.WaitBuilds(c)
	x.p.search("after an index was built")
}

// TestNoPlainText checks that no part of a sealed object is ever readable, in any encoding, in the store, in files
// beside it or in the log. Without encryption the same search must find all words.
func TestNoPlainText(t *testing.T) {
	t.Parallel()
	typed := mustCodec(t, &corev1.Secret{})
	asUnstructured := func(obj runtime.Object) runtime.Object {
		m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			t.Error(err)
		}
		return &unstructured.Unstructured{Object: m}
	}
	same := func(obj runtime.Object) runtime.Object { return obj }
	for name, test := range map[string]struct {
		codec       codec.Codec
		as          func(runtime.Object) runtime.Object
		compression store.Compression
	}{
		"Protobuf": {typed, same, store.NoCompression}, "ProtobufZstd": {typed, same, store.Zstd},
		"Unstructured": {codec.Unstructured(), asUnstructured,
			store.NoCompression}, "UnstructuredZstd": {codec.Unstructured(), asUnstructured, store.Zstd},
	} {
		for _, sealed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s sealed %v", name, sealed), func(t *testing.T) {
				t.Parallel()
				x := &operations{t: t, p: newHiddenWords(t.TempDir()), log: &logged{}, codec: test.codec, as: test.as,
					compression: test.compression}
				x.o.Logger = x.log.logger()
				if sealed {
					line := mustKey(t, "")
					raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(line))
					if err != nil {
						t.Fatal(err)
					}
					x.p.add("the key", raw)
					x.o.Encryption = &seal.Encryption{Keys: mustKeys(t, line)}
				}
				x.run()
				if sealed {
					for what, where := range x.p.found {
						t.Errorf("%s is legible: %s", what, where)
					}
					return
				}
				want := slices.Sorted(maps.Keys(x.p.forms))
				if test.compression != store.NoCompression { // in compressed records the search may not find the other words
					want = []string{"a list", "a sample", "a tombstone", "an abandoned list", "an index value"}
				}
				for _, what := range want {
					if x.p.found[what] == "" {
						t.Errorf("the search does not find %s, which is there", what)
					}
				}
				if len(x.p.forms) != 10 {
					t.Errorf("%d words are searched for: %q", len(x.p.forms), want)
				}
			})
		}
	}
}
