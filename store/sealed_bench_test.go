package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// benchSecrets is how many Secrets BenchmarkSealed stores, of about 2 KB each.
const benchSecrets = 10_000

func benchSecret(i int) *corev1.Secret {
	random := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)})
	data := make([]byte, 1500)
	_, _ = random.Read(data)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("namespace-%d", i%100), Name: fmt.Sprintf("secret-%05d", i), UID: types.UID(fmt.Sprint("uid-", i)), ResourceVersion: fmt.Sprint(1000 + i),
			Labels: map[string]string{"app.kubernetes.io/name": fmt.Sprintf("app-%d", i%50)}, Annotations: map[string]string{"owner": fmt.Sprintf("team-%d", i%20)},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{"tls.crt": data[:1000], "tls.key": data[1000:]},
	}
}

// BenchmarkSealed stores, reads and looks up Secrets, with nothing of them in memory, sealed and in plain text.
func BenchmarkSealed(b *testing.B) {
	var page []runtime.Object
	var keys []string
	for i := range benchSecrets {
		s := benchSecret(i)
		page, keys = append(page, s), append(keys, s.Namespace+"/"+s.Name)
	}
	for _, how := range []string{"plain", "sealed"} {
		var o Options
		if how == "sealed" {
			line, err := GenerateKey("")
			if err != nil {
				b.Fatal(err)
			}
			k, err := ParseKeys([]byte(line))
			if err != nil {
				b.Fatal(err)
			}
			o.Encryption = &Encryption{Keys: k}
		}
		s, err := Open(b.TempDir()+"/larder.db", o)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close() })
		id := Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}}
		codec := mustCodec(b, &corev1.Secret{})
		open := func() *Collection {
			c, err := s.Collection(context.Background(), id, CollectionOptions{
				Codec: codec, Residency: None, Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			})
			if err != nil {
				b.Fatal(err)
			}
			return c
		}
		c := open()
		b.Run("List/"+how, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				if err := c.Close(); err != nil {
					b.Fatal(err)
				}
				if err := s.Drop(context.Background(), id); err != nil {
					b.Fatal(err)
				}
				c = open()
				b.StartTimer()
				benchListSecrets(b, c, page)
			}
			b.ReportMetric(float64(b.N*benchSecrets)/b.Elapsed().Seconds(), "objects/s")
		})
		b.Run("Get/"+how, func(b *testing.B) {
			for b.Loop() {
				if obj, err := c.Get(context.Background(), keys[rand.IntN(len(keys))]); obj == nil || err != nil {
					b.Fatal(obj, err)
				}
			}
		})
		b.Run("Iterate/"+how, func(b *testing.B) {
			for b.Loop() {
				n := 0
				if err := c.Iterate(context.Background(), "", func(string, runtime.Object) error { n++; return nil }); n != benchSecrets || err != nil {
					b.Fatal(n, err)
				}
			}
		})
		b.Run("ByIndex100/"+how, func(b *testing.B) {
			for b.Loop() {
				if objs, err := c.ByIndex(context.Background(), cache.NamespaceIndex, "namespace-7"); len(objs) != benchSecrets/100 || err != nil {
					b.Fatal(len(objs), err)
				}
			}
		})
		b.Run("CommitHot1000/"+how, func(b *testing.B) { benchUpdates(b, c, 1000) })
		if total, free, err := s.Size(); err == nil {
			b.Logf("%s: %d bytes of the file for each object", how, (total-free)/benchSecrets)
		}
	}
}

func benchListSecrets(b *testing.B, c *Collection, page []runtime.Object) {
	r, err := c.BeginReplace(context.Background(), ReplaceOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for from := 0; from < len(page); from += 2000 {
		if _, err := r.Page(context.Background(), page[from:from+2000]); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := r.Commit(context.Background(), Batch{ResourceVersion: "90000"}); err != nil {
		b.Fatal(err)
	}
}

// benchUpdates updates so many Secrets that are far apart, and commits them in one transaction.
func benchUpdates(b *testing.B, c *Collection, n int) {
	rv := 100_000
	for b.Loop() {
		batch := Batch{}
		for i := range n {
			rv++
			s := benchSecret(i * benchSecrets / n)
			s.ResourceVersion = fmt.Sprint(rv)
			batch.Ops = append(batch.Ops, Op{Object: s})
		}
		batch.ResourceVersion = fmt.Sprint(rv)
		if _, err := c.Apply(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
		if err := c.store.Flush(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
