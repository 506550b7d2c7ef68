package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

// populated returns the path of a closed store with every kind of page, and the contents that readAll returns for it.
// clean says whether the store was closed cleanly.
func populated(t *testing.T, clean bool) (path string, all map[string][]byte) {
	t.Helper()
	kind := populatedKind{filePageSize, clean}
	made, found := populatedFiles[kind]
	if !found {
		made = populate(t, clean)
		populatedFiles[kind] = made
	}
	path = filepath.Join(t.TempDir(), "store")
	if err := os.WriteFile(path, made.data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, maps.Clone(made.all)
}

type populatedKind struct {
	pageSize int
	clean    bool
}

type populatedFile struct {
	data []byte
	all  map[string][]byte
}

// populatedFiles caches the files of the function populated. It has no lock: tests that use it do not run in parallel.
var populatedFiles = map[populatedKind]populatedFile{}

func populate(t *testing.T, clean bool) populatedFile {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, path, store.Options{})
	for round := range 4 {
		var keys []string
		for i := range 1500 {
			keys = append(keys, fmt.Sprintf("namespace-%d/a-name-as-long-as-that-of-a-pod-%d", i%10, i+200*round))
		}
		if err := put(s, bytes.Repeat([]byte{byte(round)}, scaled(300)), keys...); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(s, bytes.Repeat([]byte("large"), scaled(5000)), "large/1", "large/2"); err != nil {
		t.Fatal(err)
	}
	all, err := readAll(s)
	if err != nil {
		t.Fatal(err)
	}
	if clean {
		mustClose(t, s)
	} else {
		path = mustCrash(t, s)
	}
	wantNames(t, filepath.Dir(path), "store")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return populatedFile{data, all}
}

// pagesOf returns the offsets of the bbolt pages in use, by kind of page.
func pagesOf(t *testing.T, data []byte) map[string][]int {
	t.Helper()
	f, err := boltcheck.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string][]int{"meta": {0, f.PageSize}, "freelist": {int(f.Freelist) * f.PageSize}}
	for id := 2; id < int(f.HighWater); id++ {
		at := id * f.PageSize
		if f.IsFree(uint64(id)) || binary.NativeEndian.Uint64(data[at:]) != uint64(id) {
			continue
		}
		overflow := int(binary.NativeEndian.Uint32(data[at+12:]))
		switch binary.NativeEndian.Uint16(data[at+8:]) {
		case 1:
			kinds["branch"] = append(kinds["branch"], at)
		case 2:
			kinds["leaf"] = append(kinds["leaf"], at)
			if overflow > 0 {
				kinds["overflow"] = append(kinds["overflow"], at+f.PageSize)
			}
		}
	}
	return kinds
}

// survive opens, reads and writes the file. It fails the test on a panic or on an error other than ErrDamaged. It
// returns the step that found damage: "open", "use", or "" for none.
func survive(t *testing.T, path, what string) (noticed string) {
	t.Helper()
	s, err := store.Open(path, store.Options{Logger: &quiet})
	if err != nil {
		t.Errorf("%s: open: %v", what, err)
		return "error"
	}
	if s.Quarantined() != "" {
		noticed = "open"
		if _, err := os.Stat(s.Quarantined()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if all, err := readAll(s); err != nil || len(all) > 0 {
			t.Errorf("%s: the new store has %d keys, %v", what, len(all), err)
		}
	}
	_, readErr := readAll(s)
	writeErr := put(s, []byte("new"), "namespace-1/new", "namespace-9/new")
	for _, err := range []error{readErr, writeErr} {
		if err != nil {
			noticed = "use"
			if !errors.Is(err, entry.ErrDamaged) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	if readErr != nil && !errors.Is(s.Err(), entry.ErrDamaged) {
		t.Errorf("%s: a page could not be read, and Err is %v", what, s.Err())
	}
	if err := s.Close(); err != nil {
		t.Errorf("%s: close: %v", what, err)
	}
	return noticed
}

// writeFlipped writes data with some bits of one byte flipped, and returns the path.
func writeFlipped(t *testing.T, path string, data []byte, at int, bits byte) string {
	t.Helper()
	data[at] ^= bits
	err := os.WriteFile(path, data, 0o600)
	data[at] ^= bits // flips the bits back, since copying the data for each file would be too slow with the race detector
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFlippedBits checks that a flipped bit in any kind of page causes no panic, and no error other than ErrDamaged.
// Not every flipped bit is found: the values in this test have no checksums, unlike records.
func TestFlippedBits(t *testing.T) {
	path, _ := populated(t, true)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(5, 6))
	kinds := pagesOf(t, data)
	if len(kinds) != 5 {
		t.Fatalf("the store has pages of %d kinds", len(kinds))
	}
	tries := soaked(9, 30)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		offsets := kinds[kind]
		noticed := map[string]int{}
		for i := range tries / every {
			off, bit := offsets[random.IntN(len(offsets))], random.IntN(200*8)
			if i < tries/3/every {
				bit = random.IntN(16 * 8)
			}
			path := writeFlipped(t, filepath.Join(t.TempDir(), "store"), data, off+bit/8, 1<<(bit%8))
			noticed[survive(t, path, fmt.Sprintf("%s page at %d, bit %d", kind, off, bit))]++
		}
		t.Logf("%s: %v", kind, noticed)
		if kind == "branch" && noticed["open"]+noticed["use"] == 0 || kind == "freelist" && noticed["open"] == 0 {
			t.Errorf("%s: no flipped bit was noticed", kind)
		}
	}
}

// TestWrecked checks that Open moves truncated or zeroed files of any page size aside, unless it is read-only.
func TestWrecked(t *testing.T) {
	path, _ := populated(t, true)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pages := pagesOf(t, data)
	wrecks := map[string][]byte{"zeros": make([]byte, len(data)), "ones": bytes.Repeat([]byte{0xFF}, len(data))}
	for _, size := range []int{1, 100, filePageSize, filePageSize + 900, 2 * filePageSize, scaled(100_000),
		len(data) / 3} {
		wrecks[fmt.Sprintf("cut to %d", size)] = data[:size]
	}
	for _, kind := range []string{"meta", "freelist"} {
		bad := bytes.Clone(data)
		for _, off := range pages[kind] {
			clear(bad[off : off+filePageSize])
		}
		wrecks["no "+kind] = bad
	}
	for what, bad := range wrecks {
		dir := t.TempDir()
		path := filepath.Join(dir, "store")
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Open(path, store.Options{ReadOnly: true}); !errors.Is(err, entry.ErrDamaged) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s, read-only: %v", what, err)
		}
		wantNames(t, dir, "store")
		if noticed := survive(t, path, what); noticed != "open" {
			t.Errorf("%s: noticed at %q", what, noticed)
		}
		moved := disk.Beside(path, disk.SuffixDamaged)
		if len(moved) != 1 {
			t.Fatalf("%s: %q were moved aside", what, moved)
		}
		if kept, err := os.ReadFile(moved[0]); err != nil || !bytes.Equal(kept, bad) {
			t.Errorf("%s: what was moved aside is not what was there (%v)", what, err)
		}
	}
}

// TestRootPage flips every 11th bit of the store's entry on the root page, or every third with LARDER_SOAK=1. Open must
// treat the file as a damaged store, and not as a file of another program.
func TestRootPage(t *testing.T) {
	path, _ := populated(t, true)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := boltcheck.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	root := int(f.Root) * f.PageSize
	for bit := 0; bit < (16+16+len(disk.Root))*8; bit += soaked(11, 3) * every {
		path := writeFlipped(t, filepath.Join(t.TempDir(), "store"), data, root+bit/8, 1<<(bit%8))
		if noticed := survive(t, path, fmt.Sprintf("root page, bit %d", bit)); bit < 80 && noticed == "" {
			t.Errorf("root page, bit %d: not noticed", bit)
		}
	}
}

// TestQuarantineKeepsFew checks that a bounded number of damaged files is kept, so that they cannot fill the disk.
func TestQuarantineKeepsFew(t *testing.T) {
	const keepDamaged = 2
	path := filepath.Join(t.TempDir(), "store")
	var last string
	for range keepDamaged + 3 {
		if err := os.WriteFile(path, make([]byte, 9000), 0o600); err != nil {
			t.Fatal(err)
		}
		s := mustOpen(t, path, store.Options{})
		last = s.Quarantined()
		mustClose(t, s)
	}
	moved := disk.Beside(path, disk.SuffixDamaged)
	if len(moved) != keepDamaged || moved[len(moved)-1] != last {
		t.Errorf("%q are kept, the last was %s", moved, last)
	}
}

// TestQuarantineAfterTheClockWasSetBack checks that the last damaged file is kept although others seem to be newer.
func TestQuarantineAfterTheClockWasSetBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	for _, name := range []string{path, path + disk.SuffixDamaged + "29980101T000000.000000000Z",
		path + disk.SuffixDamaged + "29990101T000000.000000000Z"} {
		if err := os.WriteFile(name, make([]byte, 9000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := mustOpen(t, path, store.Options{})
	last := s.Quarantined()
	mustClose(t, s)
	if moved := disk.Beside(path, disk.SuffixDamaged); !slices.Equal(moved,
		[]string{last, path + disk.SuffixDamaged + "29990101T000000.000000000Z"}) {
		t.Errorf("%q are kept, the last was %s", moved, last)
	}
}

// TestMarkLeftBehind checks that Open reads every page if an earlier process died while it opened the store. Otherwise
// the background verification would find the damage later.
func TestMarkLeftBehind(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		for _, damage := range []bool{false, true} {
			path, all := populated(t, true)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if damage { // only a walk of all pages finds damage in a leaf page
				offsets := pagesOf(t, data)["leaf"]
				data[offsets[len(offsets)/2]] ^= 1
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(path+disk.SuffixOpening, []byte("1\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := store.Open(path, store.Options{ReadOnly: readOnly, Logger: &quiet})
			if readOnly && damage {
				if !errors.Is(err, entry.ErrDamaged) {
					t.Errorf("read-only, damaged: %v", err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := readAll(s)
			if err != nil {
				t.Error(err)
			}
			if damage != (s.Quarantined() != "") || !damage && len(got) != len(all) {
				t.Errorf("damage %t: quarantined %q, %d keys of %d", damage, s.Quarantined(), len(got), len(all))
			}
			if _, err := os.Stat(path + disk.SuffixOpening); errors.Is(err, fs.ErrNotExist) == readOnly {
				t.Errorf("read-only %t: the mark: %v", readOnly, err)
			}
			mustClose(t, s)
		}
	}
}

// leafThatOpenLeaves returns the offset of a leaf page that Open does not read. Open walks the branch pages, and reads
// only the first leaf below each branch page.
func leafThatOpenLeaves(t *testing.T, data []byte) int {
	t.Helper()
	for _, off := range pagesOf(t, data)["leaf"] {
		data[off] ^= 1
		var problems []string
		pages, err := boltcheck.Open(bytes.NewReader(data), int64(len(data)))
		if err == nil {
			problems, err = pages.Walk(t.Context(), boltcheck.WalkOptions{LeafDepth: 2})
		}
		data[off] ^= 1
		if err == nil && len(problems) == 0 {
			return off
		}
	}
	t.Fatal("every leaf is read")
	return 0
}

// TestVerifyAfterUncleanClose checks that the background verification finds a damaged leaf and stops all writes.
func TestVerifyAfterUncleanClose(t *testing.T) {
	path, _ := populated(t, false)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[leafThatOpenLeaves(t, data)] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, path, store.Options{})
	select {
	case <-s.Failed():
	case <-time.After(20 * time.Second):
		t.Fatal("nothing is found")
	}
	if err := s.Err(); !errors.Is(err, entry.ErrDamaged) || !strings.Contains(err.Error(), path) {
		t.Errorf("after the verification: %v", err)
	}
	if err := put(s, nil, "k"); !errors.Is(err, entry.ErrDamaged) {
		t.Errorf("write: %v", err)
	}
	mustClose(t, s)
	s = mustOpen(t, path, store.Options{})
	if s.Quarantined() == "" || s.Err() != nil {
		t.Errorf("when opened again: quarantined %q, %v", s.Quarantined(), s.Err())
	}
	wantNames(t, filepath.Dir(path), "store", filepath.Base(s.Quarantined()))
}

// TestCheckFindsPages checks that a check during writes finds flipped bits that no reader would notice.
func TestCheckFindsPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "larder.db")
	s := mustOpen(t, path, store.Options{})
	c := openPods(t, s, byNamespaceAndColor)
	var items []entry.Op
	for n := range scaled(600) {
		items = append(items, upsert(fmt.Sprintf("a/%04d", n), "1", storetest.ColorLabel, "xxxx"))
	}
	relist(t, c, store.ReplaceOptions{}, "5", items...)
	mustClose(t, s)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, offset := range pagesOf(t, data)["leaf"] {
		for what, at := range map[string]int{"its own number": 0, "overflow pages": 12, "flags of an element": 18} {
			writeFlipped(t, path, data, offset+at, 1)
			s, err := store.Open(path, store.Options{Logger: &quiet})
			if err != nil {
				t.Fatal(err)
			}
			if moved := s.Quarantined(); moved != "" { // Open has read the damaged page, and moved the file aside
				mustClose(t, s)
				if err := os.Remove(moved); err != nil {
					t.Fatal(err)
				}
				continue
			}
			r, err := s.Check(t.Context())
			if err != nil || len(r.Problems) == 0 || !strings.Contains(strings.Join(r.Problems, " "), "page") {
				t.Errorf("%s of the leaf at %d: %+v, %v", what, offset, r, err)
			}
			mustClose(t, s)
			checked++
		}
	}
	if checked < 50 {
		t.Errorf("only %d flipped bits are left to the check", checked)
	}
}
