package powerloss_test

import (
	"bytes"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/larder-dev/larder/internal/powerloss"
)

// names returns an op on a directory. The root directory is file 1, so the tests number other files from 2.
func names(dir int, names ...powerloss.Name) powerloss.Op {
	return powerloss.Op{Kind: powerloss.Names, File: dir, Names: names}
}

func create(dir int, name string, file int) powerloss.Op {
	return names(dir, powerloss.Name{Name: name, File: file})
}

func write(file int, offset int64, data string) powerloss.Op {
	return powerloss.Op{Kind: powerloss.Write, File: file, Offset: offset, Data: []byte(data)}
}

func truncate(file int, size int64) powerloss.Op {
	return powerloss.Op{Kind: powerloss.Truncate, File: file, Offset: size}
}

func syncs(file, since int) powerloss.Op {
	return powerloss.Op{Kind: powerloss.Sync, File: file, Since: since}
}

func sectors(letters string) string {
	var s strings.Builder
	for _, letter := range letters {
		s.WriteString(strings.Repeat(string(letter), 512))
	}
	return s.String()
}

// made returns an op log in which an empty file f is durable, followed by the given ops.
func made(then ...powerloss.Op) []powerloss.Op {
	return append([]powerloss.Op{create(powerloss.Root, "f", 2), syncs(powerloss.Root, 1)}, then...)
}

// TestImages checks that Disk.Image produces exactly the states in which a power loss can leave the disk.
func TestImages(t *testing.T) {
	const root = powerloss.Root
	var honest, noSync, noDirSync powerloss.Faults
	noSync.IgnoreSync, noDirSync.IgnoreDirSync = true, true
	dir := names(root, powerloss.Name{Name: "d", File: 2, Dir: true})
	remove := names(root, powerloss.Name{Name: "f"})
	replace := names(root, powerloss.Name{Name: "g"}, powerloss.Name{Name: "f", File: 3})
	old := slices.Clip(made(write(2, 0, sectors("AB")), syncs(2, 3))) // a durable file f of two sectors, A and B
	tests := []struct {
		name   string
		record []powerloss.Op
		faults powerloss.Faults
		// want has the possible disk states, as path=content for each file. Each letter of the content is a sector of that
		// letter, and 0 a sector of zeros.
		want string
	}{
		{"nothing", nil, honest, ""},
		{"a name that is not synced", made()[:1], honest, " | f="},
		{"a name that is synced", made(), honest, "f="},
		{"a directory that ignores it", made(), noDirSync, " | f="},
		{"a name whose file is synced", append(made()[:1:1], write(2, 0, "a"), syncs(2, 2)), honest, " | f=a"},
		{"a write", made(write(2, 0, "a")), honest, "f= | f=0 | f=a"},
		{"a write that is synced", made(write(2, 0, "a"), syncs(2, 3)), honest, "f=a"},
		{"a file that ignores it", made(write(2, 0, "a"), syncs(2, 3)), noSync, "f= | f=0 | f=a"},
		{"a write that comes while it is synced", append(old, write(2, 0, sectors("C")), syncs(2, 4)), honest, "f=AB | f=CB"},
		{"a torn write", append(old, write(2, 0, sectors("CD"))), honest, "f=AB | f=AD | f=CB | f=CD"},
		{
			"a torn write that makes the file larger", made(write(2, 0, sectors("AB"))), honest,
			"f= | f=0 | f=00 | f=0B | f=A | f=A0 | f=AB",
		},
		{
			"writes out of order", append(old, write(2, 0, sectors("C")), write(2, 512, sectors("D"))), honest,
			"f=AB | f=AD | f=CB | f=CD",
		},
		{
			"two writes of a sector", append(old, write(2, 0, sectors("C")), write(2, 0, sectors("D"))), honest,
			"f=AB | f=CB | f=DB",
		},
		{"a file that is made larger", append(old, truncate(2, 1536)), honest, "f=AB | f=AB0"},
		{"and synced", append(old, truncate(2, 1536), syncs(2, 5)), honest, "f=AB0"},
		{"a file that is made smaller", append(old, truncate(2, 0)), honest, "f= | f=AB"},
		{"a rename", made(create(root, "g", 3), write(3, 0, "n"), syncs(3, 4), replace), honest, "f= | f= g=n | f=n"},
		{"a name that is removed", made(remove), honest, " | f="},
		{"another name", made(create(root, "g", 2), write(2, 0, "a"), syncs(2, 4)), honest, "f=a | f=a g=a"},
		{"a directory that is not synced", []powerloss.Op{dir, create(2, "f", 3), syncs(2, 2)}, honest, " | d/ d/f="},
		{"a directory in one that is", []powerloss.Op{dir, syncs(root, 1), create(2, "f", 3)}, honest, "d/ | d/ d/f="},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			found, dir := map[string]bool{}, tempDir(t)
			for i := range uint64(200) {
				found[mustImage(t, dir, test.record, test.faults, rand.New(rand.NewPCG(i, i)))] = true
			}
			if got := strings.Join(slices.Sorted(maps.Keys(found)), " | "); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if least := mustImage(t, dir, test.record, test.faults, nil); !found[least] {
				t.Errorf("what was synced is %q, which is none of %s", least, test.want)
			}
		})
	}
}

func mustImage(t *testing.T, dir string, record []powerloss.Op, faults powerloss.Faults, random *rand.Rand) string {
	t.Helper()
	dir, err := os.MkdirTemp(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	d := powerloss.NewDisk(record, faults)
	d.Advance(len(record))
	if _, err := d.Image(dir, random); err != nil {
		t.Fatal(err)
	}
	var found []string
	err = fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || path == ".":
		case entry.IsDir():
			found = append(found, path+"/")
		default:
			var data []byte
			data, err = os.ReadFile(filepath.Join(dir, path))
			found = append(found, path+"="+summary(data))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(found, " ")
}

func summary(data []byte) string {
	var s strings.Builder
	for sector := range slices.Chunk(data, 512) {
		letter := sector[0]
		if !bytes.Equal(sector, bytes.Repeat(sector[:1], len(sector))) {
			letter = '?'
		}
		if letter == 0 {
			letter = '0'
		}
		s.WriteByte(letter)
	}
	return s.String()
}

// tempDir is t.TempDir, in memory if possible, and without symbolic links in the path.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "larder-powerloss-")
	if err != nil {
		dir = t.TempDir()
	} else {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}
