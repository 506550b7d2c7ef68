package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// TestImportModel checks that a collection stays equal when Records and Import copy it to new stores repeatedly.
func TestImportModel(t *testing.T) {
	t.Parallel()
	dir, files := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		runImportModel(t, dir, &files, rapid.SampledFrom([]store.Compression{store.NoCompression, store.Zstd}).Draw(t,
			"compression"))
	})
}

func runImportModel(t *rapid.T, dir string, files *int, compression store.Compression) {
	ctx := context.Background()
	next := func() string {
		*files++
		return filepath.Join(dir, fmt.Sprint(*files))
	}
	o := store.Options{Logger: &quiet, CommitInterval: time.Hour}
	var s *store.Store
	var c *store.Collection
	defer func() {
		if s != nil {
			_ = errors.Join(s.Close(), os.Remove(s.Path()))
		}
	}()
	storetest.RunModel(t, storetest.Harness{
		Open: func(t *rapid.T, indexers cache.Indexers, versions map[string]string) store.Interface {
			if s == nil || rapid.Bool().Draw(t, "carry") {
				path := next()
				if s != nil {
					carry(t, s, path, compression)
				}
				opened, err := store.Open(path, o)
				if err != nil {
					t.Fatal(err)
				}
				s = opened
				store.NoSync(s)
			}
			var err error
			c, err = s.Collection(ctx, storetest.Pods, store.CollectionOptions{
				Codec: storetest.PodCodec(), Indexers: indexers, IndexVersions: versions, Residency: store.None,
				Compression: compression,
			})
			if err != nil {
				t.Fatal(err)
			}
			if compression != store.NoCompression {
				store.SetSampling(c, 1<<10, 200)
			}
			return c
		},
		Close: func(t *rapid.T) {
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		},
		Wait: func() { store.WaitBuilds(c) },
		Check: func(t *rapid.T) {
			if r, err := store.CheckContent(ctx, s); err != nil || len(r.Problems) > 0 {
				t.Fatalf("check: %v, %q", err, r.Problems)
			}
		},
	})
}

func carry(t *rapid.T, s *store.Store, path string, compression store.Compression) {
	ctx := context.Background()
	i, err := store.NewImport(ctx, path, store.ImportOptions{Compression: compression})
	if err != nil {
		t.Fatal(err)
	}
	store.NoSyncImport(i)
	infos, err := s.Collections(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		err := i.Begin(ctx, store.ImportCollection{Identity: info.Identity, Attributes: info.Attributes,
			Resource: info.Resource})
		if err == nil {
			err = s.Records(ctx, info.Identity, "", func(r entry.Entry) error { return i.Add(ctx, r) })
		}
		n := 0
		if err == nil {
			n, err = i.End(ctx, store.ImportState{
				ResourceVersion: info.ResourceVersion, Complete: info.Complete, MustRelist: info.MustRelist,
				LastContact: info.LastContact,
			})
		}
		if err != nil || n != info.Objects {
			t.Fatalf("%d of %d objects, %v", n, info.Objects, err)
		}
	}
	if err := i.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), os.Remove(s.Path())); err != nil {
		t.Fatal(err)
	}
}
