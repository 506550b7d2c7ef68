package store_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"

	"github.com/larder-dev/larder/store"
)

func patch(t *testing.T, s *store.Store, change func(data []byte)) {
	t.Helper()
	data, err := os.ReadFile(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	before := bytes.Clone(data)
	change(data)
	f, err := os.OpenFile(s.Path(), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(data); at += 4096 {
		if page := data[at:min(at+4096, len(data))]; !bytes.Equal(page, before[at:at+len(page)]) {
			if _, err := f.WriteAt(page, int64(at)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// objectPages returns the offsets of the large collection's leaf pages, recognised by the names of its pods.
func objectPages(t *testing.T, data []byte) (leaves []int) {
	t.Helper()
	for _, off := range pagesOf(t, data)["leaf"] {
		if page := data[off : off+filePageSize]; bytes.Contains(page, []byte("/pod-05")) &&
			bytes.Contains(page, []byte("padding")) {
			leaves = append(leaves, off)
		}
	}
	if len(leaves) < 10 {
		t.Fatalf("%d leaves with pods", len(leaves))
	}
	return leaves
}

// TestSalvage checks what Open keeps of a damaged file, and that the collection can be listed then.
func TestSalvage(t *testing.T) {
	tried := 0
	for what, test := range map[string]struct {
		damage func(t *testing.T, s *store.Store)
		// min and max bound the number of objects that are left in the large collection.
		min, max int
	}{
		"one bad record": {func(t *testing.T, s *store.Store) {
			patch(t, s, func(data []byte) {
				leaves := objectPages(t, data)
				for _, off := range leaves[len(leaves)/2:] {
					if at := bytes.Index(data[off:off+filePageSize], []byte("xxxx")); at >= 0 {
						data[off+at] ^= 1
						return
					}
				}
			})
		}, 998, 1000},
		"a leaf with another's id": {func(t *testing.T, s *store.Store) {
			patch(t, s, func(data []byte) {
				leaves := objectPages(t, data)
				data[leaves[len(leaves)/2]] ^= 1
			})
		}, 900, 999},
		"a leaf with fewer entries": { // bbolt does not notice this damage; only the stored number of objects shows the loss
			func(t *testing.T, s *store.Store) {
				patch(t, s, func(data []byte) {
					leaves := objectPages(t, data)
					count := data[leaves[len(leaves)/2]+10:]
					binary.NativeEndian.PutUint16(count, binary.NativeEndian.Uint16(count)-1)
				})
			}, 999, 999},
		"zeros in the middle": {func(t *testing.T, s *store.Store) {
			patch(t, s, func(data []byte) {
				leaves := objectPages(t, data)
				for _, off := range leaves[2:8] {
					clear(data[off : off+filePageSize])
				}
			})
		}, 500, 999},
		"branches that point to themselves": {func(t *testing.T, s *store.Store) {
			patch(t, s, func(data []byte) {
				for _, off := range pagesOf(t, data)["branch"] {
					last := int(binary.NativeEndian.Uint16(data[off+10:])) - 1
					copy(data[off+16+16*last+8:], data[off:off+8])
				}
			})
		}, 0, 0},
		"cut short": {func(t *testing.T, s *store.Store) {
			if err := os.Truncate(s.Path(), int64(scaled(100<<10))); err != nil {
				t.Fatal(err)
			}
		}, 0, 900},
		"no meta pages": {func(t *testing.T, s *store.Store) {
			patch(t, s, func(data []byte) { clear(data[:2*filePageSize]) })
		}, 0, 0},
		// bbolt follows all elements that a branch page claims to have.
		"branches with more elements than there are": {func(t *testing.T, s *store.Store) {
			patch(t, s, func(data []byte) {
				for _, off := range pagesOf(t, data)["branch"] {
					count := int(binary.NativeEndian.Uint16(data[off+10:]))
					binary.NativeEndian.PutUint16(data[off+10:], uint16(count+512))
					for i := count; i < filePageSize/16-1; i++ { // the surplus elements point to the branch page itself
						copy(data[off+16+16*i+8:], data[off:off+8])
					}
				}
			})
		}, 0, 0},
		"the collection's info is bad": {func(t *testing.T, s *store.Store) {
			patch(t, s, func(data []byte) {
				for at := 0; ; {
					i := bytes.Index(data[at:], []byte("nextSeq"))
					if i < 0 {
						return
					}
					at += i
					data[at] ^= 1
				}
			})
		}, 0, 0},
	} {
		if tried++; tried%every != 0 {
			continue
		}
		t.Run(what, func(t *testing.T) {
			s, _, _ := filled(t, store.Options{})
			test.damage(t, s)
			s = salvage(t, s, store.Options{})
			many, few := mustCollection(t, s, pods()), mustCollection(t, s, otherPods())
			n, info := count(t, many)
			if n < test.min || n > test.max || info.Objects != n {
				t.Errorf("%d objects are left, want %d to %d; info says %d", n, test.min, test.max, info.Objects)
			}
			if lost := n < 1000; lost != (info.MustRelist == store.MustRelistDamaged || !info.Complete) {
				t.Errorf("%d objects are left: %+v", n, info)
			}
			if n, info := count(t, few); info.Objects != n || n < 200 && info.MustRelist == "" && info.Complete {
				t.Errorf("the other collection: %d objects, %+v", n, info)
			}
			mustList(t, many, 1000)
			if n, info := count(t, many); n != 1000 || info.MustRelist != "" || !info.Complete {
				t.Errorf("listed anew: %d objects, %+v", n, info)
			}
			wantUsable(t, s, many)
		})
	}
}
