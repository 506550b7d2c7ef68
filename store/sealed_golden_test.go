package store_test

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

// The golden store with sealed records has pods that were all sealed with the first key. goldenSealedNewer of them were
// then compressed, and goldenSealedLatest of these were sealed again with the second key.
const (
	goldenSealedPath   = "testdata/golden-format-1-sealed.larder"
	goldenSealedPods   = 20
	goldenSealedNewer  = 15
	goldenSealedLatest = 5
)

func writeGoldenSealed(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store")
	_, first, _ := strings.Cut(rekeyKeys, "\n")
	old := sealing(t, first)
	s := mustOpen(t, path, store.Options{Encryption: old})
	c := openCompressed(t, s, store.NoCompression)
	mustList(t, c, goldenSealedPods+1)
	mustOpenCursor(t, c, "handler")
	if _, err := c.Apply(t.Context(), entry.Batch{Ops: []entry.Op{{Type: entry.Delete, Object: somePod(goldenSealedPods)}},
		ResourceVersion: "4000"}); err != nil {
		t.Fatal(err)
	}
	mustEnd(t, c)
	c = openCompressed(t, s, store.Zstd)
	store.SetSampling(c, 2<<10, 2<<10)
	applyNewer(t, c, 0, goldenSealedNewer, 5000)
	mustClose(t, s)
	s = mustOpen(t, path, store.Options{Encryption: sealing(t, rekeyKeys)})
	applyNewer(t, openCompressed(t, s, store.Zstd), 0, goldenSealedLatest, 6000)
	mustClose(t, s)
	saveGolden(t, path, goldenSealedPath)
}

func TestGoldenSealed(t *testing.T) {
	if *updateGolden {
		writeGoldenSealed(t)
	}
	path := copyGolden(t, goldenSealedPath)
	s := mustOpen(t, path, store.Options{})
	v, err := s.ViewWith(t.Context(), pods(), mustCodec(t, &corev1.Pod{}))
	if err != nil {
		t.Fatal(err)
	}
	if names, err := v.Keys(t.Context()); err != nil || len(names) != goldenSealedPods {
		t.Errorf("%d names, %v", len(names), err)
	}
	wantSound(t, s)
	mustClose(t, s)
	for _, rekeyed := range []bool{false, true} {
		s := mustOpen(t, path, store.Options{Encryption: sealing(t, rekeyKeys)})
		if s.Quarantined() != "" {
			t.Fatal("the golden store was moved aside")
		}
		wantSound(t, s)
		c := openCompressed(t, s, store.Zstd)
		wantPods(t, c, goldenSealedPods, func(pod *corev1.Pod) {
			switch {
			case pod.Name < "pod-0005":
				pod.ResourceVersion = "6000"
			case pod.Name < "pod-0015":
				pod.ResourceVersion = "5000"
			}
		})
		wantIndexed(t, c, goldenSealedPods)
		if total, packed, dicts := compressionOf(t, c); total != goldenSealedPods || packed != goldenSealedNewer || dicts != 1 {
			t.Errorf("%d of %d records are compressed, with %d dictionaries", packed, total, dicts)
		}
		f, err := c.OpenCursor(t.Context(), "handler")
		if err != nil {
			t.Fatal(err)
		}
		position, _, err := f.Position()
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := f.Read(t.Context(), consumer.Position{Seq: position.Seq})
		if err != nil || len(p.Changes) != goldenSealedNewer+1 || p.Changes[0].Type != entry.Delete ||
			p.Changes[0].Object == nil {
			t.Errorf("%d changes, %v", len(p.Changes), err)
		}
		if !rekeyed {
			wantDataKeys(t, s, 2)
			mustRekey(t, s)
		}
		wantDataKeys(t, s, 1)
		mustClose(t, s)
	}
}
