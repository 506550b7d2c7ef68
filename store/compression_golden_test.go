package store_test

import (
	"fmt"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/store"
)

// goldenCompressed is the number of compressed pods among the goldenZstdPods pods of a golden store.
const (
	goldenZstdPath   = "testdata/golden-format-1-zstd.larder"
	goldenZstdPods   = 30
	goldenCompressed = 25
)

func writeGoldenZstd(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, path, store.Options{})
	c := openCompressed(t, s, store.NoCompression)
	mustList(t, c, goldenZstdPods)
	mustEnd(t, c)
	c = openCompressed(t, s, store.Zstd)
	store.SetSampling(c, 4<<10, 8<<10)
	applyNewer(t, c, 0, goldenCompressed, 5000)
	mustClose(t, s)
	saveGolden(t, path, goldenZstdPath)
}

func TestGoldenZstd(t *testing.T) {
	if *updateGolden {
		writeGoldenZstd(t)
	}
	path := copyGolden(t, goldenZstdPath)
	for _, compression := range []store.Compression{store.NoCompression, store.Zstd} {
		s := mustOpen(t, path, store.Options{})
		if s.Quarantined() != "" {
			t.Fatal("the golden store was moved aside")
		}
		wantSound(t, s)
		c := openCompressed(t, s, compression)
		wantPods(t, c, goldenZstdPods, func(pod *corev1.Pod) {
			i := 0
			if _, err := fmt.Sscanf(pod.Name, "pod-%d", &i); err == nil && i < goldenCompressed {
				pod.ResourceVersion = "5000"
			}
		})
		if total, packed, dicts := compressionOf(t, c); total != goldenZstdPods || packed != goldenCompressed || dicts != 1 {
			t.Errorf("%d of %d records are compressed, with %d dictionaries", packed, total, dicts)
		}
		if info, err := c.Info(t.Context()); err != nil || info.ResourceVersion != "5000" || info.MustRelist != "" {
			t.Errorf("%+v, %v", info, err)
		}
		mustClose(t, s)
	}
}
