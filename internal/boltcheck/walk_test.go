package boltcheck

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// sample returns a file with all kinds of pages: two levels of branches, overflow pages, inline buckets and a freelist.
func sample(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := bolt.Open(path, 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType, PageSize: 1024})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 6 {
		err := db.Update(func(tx *bolt.Tx) error {
			root, err := tx.CreateBucketIfNotExists([]byte("root"))
			if err != nil {
				return err
			}
			objects, _ := root.CreateBucketIfNotExists([]byte("objects"))
			for i := range 400 {
				size := random.IntN(200)
				if i%97 == 0 {
					size = 5000
				}
				key := fmt.Sprintf("namespace-%d/name-%d", i%7, random.IntN(3000))
				if err := objects.Put([]byte(key), bytes.Repeat([]byte{byte(round)}, size)); err != nil {
					return err
				}
			}
			small, _ := root.CreateBucketIfNotExists(fmt.Appendf(nil, "small-%d", round))
			return small.Put([]byte("k"), []byte("v"))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func problems(t *testing.T, data []byte, o WalkOptions) []string {
	t.Helper()
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if errors.Is(err, ErrDamaged) || errors.Is(err, ErrForeign) {
		return []string{err.Error()}
	}
	if err != nil {
		t.Fatal(err)
	}
	found, err := f.Walk(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestSoundFile(t *testing.T) {
	data := sample(t)
	pages := 0
	count := func(context.Context, int) error { pages++; return nil }
	if found := problems(t, data, WalkOptions{Pace: count}); len(found) > 0 {
		t.Errorf("a sound file has problems: %q", found)
	}
	all := pages
	pages = 0
	if found := problems(t, data, WalkOptions{Pace: count, LeafDepth: 1}); len(found) > 0 {
		t.Errorf("the branches of a sound file have problems: %q", found)
	}
	if pages*3 > all {
		t.Errorf("the walk of the branches read %d pages of %d", pages, all)
	}
}

func kinds(t *testing.T, data []byte) map[string][]int {
	t.Helper()
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string][]int{"freelist": {int(f.Freelist) * f.PageSize}}
	for id := uint64(2); id < f.HighWater; id++ {
		p, err := f.readPage(id, nil)
		if f.free.has(id) || err != nil {
			continue
		}
		switch {
		case p.flags == flagBranch:
			kinds["branch"] = append(kinds["branch"], int(p.off))
		case p.flags == flagLeaf && p.overflow > 0:
			kinds["overflow"] = append(kinds["overflow"], int(p.off))
		case p.flags == flagLeaf:
			kinds["leaf"] = append(kinds["leaf"], int(p.off))
		}
		id += p.overflow
	}
	for _, kind := range []string{"branch", "overflow", "leaf"} {
		if len(kinds[kind]) == 0 {
			t.Fatalf("the sample has no %s page", kind)
		}
	}
	return kinds
}

// boltFinds returns the problems that bbolt's own check finds, including a panic. Unreachable pages are omitted,
// because Walk does not treat them as damage.
func boltFinds(t *testing.T, data []byte) (found []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if r := recover(); r != nil {
			found = append(found, fmt.Sprint(r))
		}
	}()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true,
		FreelistType: bolt.FreelistMapType})
	if err != nil {
		return []string{err.Error()}
	}
	defer func() { _ = db.Close() }()
	_ = db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			if !strings.Contains(err.Error(), "unreachable unfreed") {
				found = append(found, err.Error())
			}
		}
		return nil
	})
	return found
}

// TestHeaderBits flips every bit of the header of a page of each kind. Walk must find all flips in the page id and the
// flags.
func TestHeaderBits(t *testing.T) {
	data := sample(t)
	for kind, offsets := range kinds(t, data) {
		for bit := range headerSize * 8 {
			flipped := &data[offsets[len(offsets)/2]+bit/8]
			*flipped ^= 1 << (bit % 8)
			found := problems(t, data, WalkOptions{})
			*flipped ^= 1 << (bit % 8)
			if bit < 10*8 && len(found) == 0 {
				t.Errorf("%s page: bit %d of the header was flipped and nothing noticed", kind, bit)
			}
		}
	}
}

// TestRandomBits flips random bits of tree pages. Walk must find all damage that bbolt's own check finds.
func TestRandomBits(t *testing.T) {
	data := sample(t)
	random := rand.New(rand.NewPCG(3, 4))
	noticed := 0
	for kind, offsets := range kinds(t, data) {
		if kind == "freelist" {
			continue // bbolt's check of a damaged freelist panics on another goroutine, where the test cannot recover
		}
		for range 150 {
			off, bit := offsets[random.IntN(len(offsets))], random.IntN(200*8)
			if bit/8 < headerSize {
				continue // TestHeaderBits covers header bits
			}
			flipped := &data[off+bit/8]
			*flipped ^= 1 << (bit % 8)
			if ours := problems(t, data, WalkOptions{}); len(ours) > 0 {
				noticed++ // bbolt's check might crash on this file, whose damage Walk has found
			} else if theirs := boltFinds(t, data); len(theirs) > 0 {
				t.Errorf("%s page at %d, bit %d: bbolt finds %q, Walk nothing", kind, off, bit, theirs)
			}
			*flipped ^= 1 << (bit % 8)
		}
	}
	if noticed < 50 {
		t.Errorf("only %d flipped bits were noticed", noticed)
	}
}

// TestCycle checks that Walk reports a branch page that points to itself. bbolt would overflow the stack.
func TestCycle(t *testing.T) {
	data := sample(t)
	for _, off := range kinds(t, data)["branch"] {
		bad := bytes.Clone(data)
		id := binary.NativeEndian.Uint64(bad[off:])
		last := int(binary.NativeEndian.Uint16(bad[off+10:])) - 1
		binary.NativeEndian.PutUint64(bad[off+headerSize+last*elementSize+8:], id)
		for _, o := range []WalkOptions{{}, {LeafDepth: 1}} {
			found := problems(t, bad, o)
			if !strings.Contains(strings.Join(found, "\n"), "in use twice") {
				t.Errorf("page %d points to itself; with %+v Walk found only %q", id, o, found)
			}
		}
	}
}

func TestTruncated(t *testing.T) {
	data := sample(t)
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	used := int(f.HighWater) * f.PageSize
	if found := problems(t, data[:used], WalkOptions{}); len(found) > 0 {
		t.Errorf("cut behind the last page: %q", found)
	}
	for _, size := range []int{0, 1, 15, 16, 79, 80, 1023, 1024, 1100, 2048, used / 2, used - 1} {
		if _, err := Open(bytes.NewReader(data[:size]), int64(size)); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut to %d bytes: %v", size, err)
		}
	}
}

// TestMeta checks which of the two meta pages of a bbolt file Open uses if one of them is older or damaged.
func TestMeta(t *testing.T) {
	data := sample(t)
	whole, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for slot := range 2 {
		bad := bytes.Clone(data)
		bad[slot*whole.PageSize+headerSize+20] ^= 4
		f, err := Open(bytes.NewReader(bad), int64(len(bad)))
		if err != nil {
			t.Fatalf("one meta page is enough: %v", err)
		}
		want := whole.TxID
		if uint64(slot) == whole.TxID%2 {
			want--
		}
		if f.TxID != want {
			t.Errorf("without meta page %d: transaction %d, want %d", slot, f.TxID, want)
		}
		if found, err := f.Walk(context.Background(), WalkOptions{}); err != nil || len(found) > 0 {
			t.Errorf("without meta page %d: %q, %v", slot, found, err)
		}
	}
	zeros := make([]byte, len(data))
	if _, err := Open(bytes.NewReader(zeros), int64(len(zeros))); !errors.Is(err, ErrDamaged) {
		t.Errorf("zeros: %v", err)
	}
	text := []byte("apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\ncurrent-context: nowhere\nusers: []\n")
	if _, err := Open(bytes.NewReader(text), int64(len(text))); !errors.Is(err, ErrForeign) {
		t.Errorf("text: %v", err)
	}
}

type failing struct {
	r   *bytes.Reader
	off int64
}

var errDisk = errors.New("input/output error")

func (f failing) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.off {
		return 0, errDisk
	}
	return f.r.ReadAt(p, off)
}

// TestReadError checks that a read error does not count as damage.
func TestReadError(t *testing.T) {
	data := sample(t)
	for off := int64(0); off < int64(len(data)); off += 1024 {
		f, err := Open(failing{bytes.NewReader(data), off}, int64(len(data)))
		if err == nil {
			var found []string
			found, err = f.Walk(context.Background(), WalkOptions{})
			if len(found) > 0 {
				t.Errorf("unreadable from %d: %q", off, found)
			}
		}
		if err != nil && !errors.Is(err, errDisk) {
			t.Errorf("unreadable from %d: %v", off, err)
		}
		if f == nil {
			continue
		}
		// With WalkOptions.Unsafe, a caller that salvages the file learns which buckets to avoid.
		unsafe := 0
		found, err := f.Walk(context.Background(), WalkOptions{Unsafe: func([]string) { unsafe++ }})
		if err != nil || unsafe == 0 && len(found) > 1 {
			t.Errorf("unreadable from %d: %d are unsafe, %q, %v", off, unsafe, found, err)
		}
	}
}

// TestUnsafeBehindManyProblems checks that the walk continues after maxProblems if WalkOptions.Unsafe is set.
func TestUnsafeBehindManyProblems(t *testing.T) {
	data := sample(t)
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	w := &walker{f: f, o: WalkOptions{Unsafe: func([]string) {}}, ctx: t.Context()}
	for range 2 * maxProblems {
		if err := w.note(tree{}, damaged("something")); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.problems) != maxProblems {
		t.Errorf("%d problems are reported", len(w.problems))
	}
	w.o.Unsafe = nil
	if err := w.note(tree{}, damaged("something")); !errors.Is(err, errEnough) {
		t.Errorf("without Unsafe: %v", err)
	}
}

func FuzzWalk(f *testing.F) {
	whole := sample(f)
	f.Add([]byte{}, uint32(0))
	f.Add([]byte{1, 2, 3}, uint32(5000))
	f.Fuzz(func(t *testing.T, patch []byte, at uint32) {
		data := bytes.Clone(whole)
		copy(data[int(at)%len(data):], patch)
		problems(t, data, WalkOptions{})
		problems(t, data, WalkOptions{LeafDepth: 1})
	})
}

// TestHead checks that the first bytes distinguish a foreign file from a damaged one.
func TestHead(t *testing.T) {
	later := sample(t)
	size := int(binary.NativeEndian.Uint32(later[headerSize+8:]))
	for _, off := range []int{headerSize, size + headerSize} {
		binary.NativeEndian.PutUint32(later[off+4:], version+1)
		sum := fnv.New64a()
		_, _ = sum.Write(later[off : off+sumOffset])
		binary.NativeEndian.PutUint64(later[off+sumOffset:], sum.Sum64())
	}
	for name, tt := range map[string]struct {
		data []byte
		want error
	}{
		"a later bbolt":  {later, ErrForeign},
		"a short text":   {[]byte("kind: Config"), ErrForeign},
		"a few letters":  {[]byte("hi"), ErrForeign},
		"cut to 5 bytes": {sample(t)[:5], ErrDamaged},
		"cut to 12":      {sample(t)[:12], ErrDamaged},
		"cut to 16":      {sample(t)[:16], ErrDamaged},
		"ones":           {bytes.Repeat([]byte{0xff}, 4096), ErrDamaged},
	} {
		if _, err := Open(bytes.NewReader(tt.data), int64(len(tt.data))); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRange checks that Range finds a wrong number of overflow pages in any leaf, for the range of that leaf's first
// key.
func TestRange(t *testing.T) {
	data := sample(t)
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var root uint64
	err = db.View(func(tx *bolt.Tx) error {
		root = uint64(tx.Bucket([]byte("root")).Bucket([]byte("objects")).Root())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	look := func(data, low, high []byte) []string {
		found, err := Range(t.Context(), bytes.NewReader(data), f.PageSize, f.HighWater, root, low, high)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := look(data, nil, nil); len(found) > 0 {
		t.Errorf("all of a sound bucket: %q", found)
	}
	reported := 0
	for _, offset := range kinds(t, data)["leaf"] {
		p, err := f.readPage(uint64(offset/f.PageSize), nil)
		if err != nil {
			t.Fatal(err)
		}
		elements, err := p.elements(nil)
		if err != nil {
			t.Fatal(err)
		}
		overflow := data[offset+12 : offset+16]
		was := bytes.Clone(overflow)
		binary.NativeEndian.PutUint32(overflow, 1)
		found, whole := look(data, elements[0].key, elements[0].key), look(data, nil, nil)
		copy(overflow, was)
		// Range must agree with a walk of the whole bucket. Neither looks at leaves of other buckets.
		if (len(whole) > 0) != (len(found) > 0) {
			t.Errorf("the leaf at %d: alone %q, and with all others %q", offset, found, whole)
		}
		if len(found) > 0 {
			reported++
		}
	}
	if reported < 50 {
		t.Errorf("only %d leaves are found", reported)
	}
}
