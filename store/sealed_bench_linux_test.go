package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// benchSecrets is the number of Secrets, of about 2 KB each, that BenchmarkSealed stores.
const benchSecrets = 10_000

func benchSecret(i int) *corev1.Secret {
	random := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)})
	data := make([]byte, 1500)
	_, _ = random.Read(data)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("namespace-%d", i%100), Name: fmt.Sprintf("secret-%05d", i),
			UID: types.UID(fmt.Sprint("uid-", i)), ResourceVersion: fmt.Sprint(1000 + i),
			Labels:      map[string]string{"app.kubernetes.io/name": fmt.Sprintf("app-%d", i%50)},
			Annotations: map[string]string{"owner": fmt.Sprintf("team-%d", i%20)},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{"tls.crt": data[:1000], "tls.key": data[1000:]},
	}
}

// BenchmarkSealed stores, reads and looks up Secrets with Residency None, sealed and in plain text in turn. On a shared
// machine the metric cpu-ns is more meaningful than the time.
func BenchmarkSealed(b *testing.B) {
	var page []runtime.Object
	var keys []string
	for i := range benchSecrets {
		s := benchSecret(i)
		page, keys = append(page, s), append(keys, s.Namespace+"/"+s.Name)
	}
	stored := map[string]*store.Collection{"plain": benchSecretStore(b, false), "sealed": benchSecretStore(b, true)}
	each := func(what string, fn func(b *testing.B, how string)) {
		for _, how := range []string{"plain", "sealed"} {
			b.Run(what+"/"+how, func(b *testing.B) {
				begun := cpuTime()
				fn(b, how)
				b.ReportMetric(float64(cpuTime()-begun)/float64(b.N), "cpu-ns/op")
			})
		}
	}
	ctx := context.Background()
	each("List", func(b *testing.B, how string) { // each list also removes the objects of the previous list
		for b.Loop() {
			c := stored[how]
			if err := errors.Join(c.Close(), store.StoreOf(c).Drop(ctx, c.Identity())); err != nil {
				b.Fatal(err)
			}
			stored[how] = benchOpenSecrets(b, store.StoreOf(c))
			benchListSecrets(b, stored[how], page)
		}
	})
	each("Get", func(b *testing.B, how string) {
		for b.Loop() {
			if obj, err := stored[how].Get(ctx, keys[rand.IntN(len(keys))]); obj == nil || err != nil {
				b.Fatal(obj, err)
			}
		}
	})
	each("Iterate", func(b *testing.B, how string) {
		for b.Loop() {
			n := 0
			if err := stored[how].Iterate(ctx, "", func(string, runtime.Object) error { n++; return nil }); n != benchSecrets ||
				err != nil {
				b.Fatal(n, err)
			}
		}
	})
	each("ByIndex100", func(b *testing.B, how string) {
		for b.Loop() {
			if objs, err := stored[how].ByIndex(ctx, cache.NamespaceIndex, "namespace-7"); len(objs) != benchSecrets/100 ||
				err != nil {
				b.Fatal(len(objs), err)
			}
		}
	})
	each("CommitHot1000", func(b *testing.B, how string) { benchUpdates(b, stored[how], 1000) })
	for how, c := range stored {
		if total, free, err := store.StoreOf(c).Size(); err == nil {
			b.Logf("%s: %d bytes of the file for each object", how, (total-free)/benchSecrets)
		}
	}
}

func benchSecretStore(b *testing.B, sealed bool) *store.Collection {
	b.Helper()
	var o store.Options
	if sealed {
		k, err := seal.ParseKeys([]byte(rekeyKeys))
		if err != nil {
			b.Fatal(err)
		}
		o.Encryption = &seal.Encryption{Keys: k}
	}
	s, err := store.Open(b.TempDir()+"/larder.db", o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	c := benchOpenSecrets(b, s)
	var page []runtime.Object
	for i := range benchSecrets {
		page = append(page, benchSecret(i))
	}
	benchListSecrets(b, c, page)
	return c
}

func benchOpenSecrets(b *testing.B, s *store.Store) *store.Collection {
	b.Helper()
	id := entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}}
	c, err := s.Collection(context.Background(), id, store.CollectionOptions{
		Codec: mustCodec(b, &corev1.Secret{}), Residency: store.None,
		Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func benchListSecrets(b *testing.B, c *store.Collection, page []runtime.Object) {
	r, err := c.BeginReplace(context.Background(), store.ReplaceOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for from := 0; from < len(page); from += 2000 {
		if _, err := r.Page(context.Background(), page[from:from+2000]); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := r.Commit(context.Background(), entry.Batch{ResourceVersion: "90000"}); err != nil {
		b.Fatal(err)
	}
}

// benchUpdates updates n Secrets, far apart in key order, in one transaction.
func benchUpdates(b *testing.B, c *store.Collection, n int) {
	rv := 100_000
	for b.Loop() {
		batch := entry.Batch{}
		for i := range n {
			rv++
			s := benchSecret(i * benchSecrets / n)
			s.ResourceVersion = fmt.Sprint(rv)
			batch.Ops = append(batch.Ops, entry.Op{Object: s})
		}
		batch.ResourceVersion = fmt.Sprint(rv)
		if _, err := c.Apply(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
		if err := store.StoreOf(c).Flush(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
