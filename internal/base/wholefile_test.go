package base

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writes(text string) func(*os.File) error {
	return func(f *os.File) error {
		_, err := f.WriteString(text)
		return err
	}
}

func wantText(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s has %q, %v; want %q", path, got, err, want)
	}
}

// TestWriteFile checks that WriteFile creates a file, and replaces a file through a link. A write that fails or is
// refused must leave the old file.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "a"), filepath.Join(dir, "link")
	must(t, WriteFile(path, WriteOptions{}, writes("one")))
	wantText(t, path, "one")
	must(t, os.Symlink("a", link))
	must(t, WriteFile(link, WriteOptions{}, writes("two")))
	wantText(t, path, "two")
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v, %v", info, err)
	}
	failed := errors.New("from the test")
	if err := WriteFile(path, WriteOptions{}, func(f *os.File) error { return errors.Join(writes("three")(f), failed) }); !errors.Is(
		err, failed) {
		t.Errorf("got %v", err)
	}
	calls := 0
	may := WriteOptions{May: func(string) error {
		if calls++; calls == 2 { // at the second call, before the rename, another process has created the file
			return failed
		}
		return nil
	}}
	if err := WriteFile(path, may, writes("four")); !errors.Is(err, failed) || calls != 2 {
		t.Errorf("got %v after %d calls", err, calls)
	}
	wantText(t, path, "two")
	if all, err := os.ReadDir(dir); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestDebris checks that WriteFile removes the unfinished files of killed processes for its own targets. Files that
// another process is writing, and files of other programs with similar names, must stay.
func TestDebris(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.new-DEAD", "b.ours.new-DEAD", "thesis.new-chapter.odt", "ab.new-X"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	o := WriteOptions{Ours: func(name string) bool { return strings.HasSuffix(name, ".ours") }}
	must(t, WriteFile(filepath.Join(dir, "a"), o, func(f *os.File) error {
		// The other WriteFile runs while this file is unfinished, and must not remove the file.
		return WriteFile(filepath.Join(dir, "a"), o, writes("inner"))
	}))
	all, err := os.ReadDir(dir)
	must(t, err)
	var left []string
	for _, e := range all {
		left = append(left, e.Name())
	}
	if got := strings.Join(left, " "); got != "a ab.new-X thesis.new-chapter.odt" {
		t.Errorf("left are %s", got)
	}
}

// TestLeavesWhatItCanNotLookAt checks that WriteFile leaves an unfinished file that it cannot open for writing, because
// another program may have created the file.
func TestLeavesWhatItCanNotLookAt(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.new-OTHER")
	must(t, os.Mkdir(name, 0o700)) // not even root can open a directory for writing
	removeDead(name)
	if _, err := os.Stat(name); err != nil {
		t.Error(err)
	}
}
