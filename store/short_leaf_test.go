package store_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// TestShortLeaf checks a leaf that has lost its last element through a flipped bit in its element count. bbolt does not
// notice; reads of all objects must, by the stored number of objects. Found by a soak of TestDamagedFile in test/e2e.
func TestShortLeaf(t *testing.T) {
	for name, residency := range map[string]store.Residency{"All": store.All, "None": store.None} {
		for what, read := range map[string]func(*testing.T, *store.Store, *store.Collection) (int, error){
			"List": func(t *testing.T, _ *store.Store, c *store.Collection) (int, error) {
				objs, err := c.List(t.Context())
				return len(objs), err
			},
			"Keys": func(t *testing.T, _ *store.Store, c *store.Collection) (int, error) {
				keys, err := c.Keys(t.Context())
				return len(keys), err
			},
			"Records": func(t *testing.T, s *store.Store, c *store.Collection) (n int, err error) {
				err = s.Records(t.Context(), c.Identity(), "", func(entry.Entry) error { n++; return nil })
				return n, err
			},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				const objects = 200
				path := filepath.Join(t.TempDir(), "larder.db")
				makeShortLeaf(t, path, objects)
				s := mustOpen(t, path, store.Options{})
				defer s.Close()
				c := openPodsWith(t, s, store.CollectionOptions{Residency: residency})
				if residency == store.All {
					<-s.Failed()
				}
				if n, err := read(t, s, c); !errors.Is(err, entry.ErrDamaged) {
					t.Fatalf("%d of %d objects, and the error %v", n, objects, err)
				}
				_ = s.Close()
				s = mustOpen(t, path, store.Options{})
				defer s.Close()
				c = openPodsWith(t, s, store.CollectionOptions{Residency: residency})
				if info := infoOf(t, c); info.MustRelist != store.MustRelistDamaged {
					t.Errorf("MustRelist is %q after the repair", info.MustRelist)
				}
				if _, err := read(t, s, c); err != nil {
					t.Error("after the repair:", err)
				}
				if r, err := s.Check(t.Context()); err != nil || len(r.Problems) > 0 {
					t.Errorf("the new file: %q, %v", r.Problems, err)
				}
			})
		}
	}
}

// makeShortLeaf writes a store, and removes the last element of the leaf that has the middle object.
func makeShortLeaf(t *testing.T, path string, objects int) {
	t.Helper()
	s := mustOpen(t, path, store.Options{})
	c := openPodsWith(t, s, store.CollectionOptions{Compression: store.NoCompression})
	var items []entry.Op
	for n := range objects {
		items = append(items, upsert(fmt.Sprintf("a/%04d", n), "1", storetest.ColorLabel, "xxxx"))
	}
	relist(t, c, store.ReplaceOptions{}, "5", items...)
	mustClose(t, s)
	damageLeaf(t, path, fmt.Sprintf("a/%04d", objects/2), func(leaf []byte, _ int) {
		binary.NativeEndian.PutUint16(leaf[10:], binary.NativeEndian.Uint16(leaf[10:])-1)
	})
}
