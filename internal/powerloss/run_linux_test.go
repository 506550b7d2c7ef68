//go:build amd64 || arm64

package powerloss_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/larder-dev/larder/internal/powerloss"
)

// childFiles makes each system call that a Recorder knows once. It runs in a traced process.
func childFiles(dir string) error {
	sub, m := filepath.Join(dir, "sub"), powerloss.NewMarker()
	err := os.Mkdir(sub, 0o700)
	f, err2 := os.OpenFile(filepath.Join(sub, "a"), os.O_RDWR|os.O_CREATE, 0o600)
	if err := errors.Join(err, err2, m.Mark("begun")); err != nil {
		return err
	}
	_, err = f.WriteString("one")
	_, err2 = f.WriteString("two")
	_, err3 := f.WriteAt([]byte("three"), 512)
	err = errors.Join(err, err2, err3, f.Truncate(100), f.Sync(), syscall.Fdatasync(int(f.Fd())))
	d, err2 := os.Open(sub)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	err = errors.Join(os.Link(filepath.Join(sub, "a"), filepath.Join(sub, "b")),
		os.Rename(filepath.Join(sub, "b"), filepath.Join(sub, "c")), os.Remove(filepath.Join(sub, "a")), d.Sync())
	if os.Getenv("MAP") != "" {
		_, err2 = syscall.Mmap(int(f.Fd()), 0, 100, syscall.PROT_WRITE, syscall.MAP_SHARED)
	}
	again, err3 := os.Create(filepath.Join(sub, "c"))
	_ = os.Remove(filepath.Join(sub, "none"))
	return errors.Join(err, err2, err3, again.Close(), f.Close(), d.Close(), m.Mark("done"))
}

func TestRun(t *testing.T) {
	const sub, a = 2, 3
	want := []powerloss.Op{
		{Kind: powerloss.Names, File: powerloss.Root, Names: []powerloss.Name{{Name: "sub", File: sub, Dir: true}}},
		{Kind: powerloss.Names, File: sub, Names: []powerloss.Name{{Name: "a", File: a}}},
		{Kind: powerloss.Mark, Text: "begun"},
		{Kind: powerloss.Write, File: a, Data: []byte("one")},
		{Kind: powerloss.Write, File: a, Data: []byte("two"), Offset: 3},
		{Kind: powerloss.Write, File: a, Data: []byte("three"), Offset: 512},
		{Kind: powerloss.Truncate, File: a, Offset: 100},
		{Kind: powerloss.Sync, File: a, Since: 7},
		{Kind: powerloss.Sync, File: a, Since: 8},
		{Kind: powerloss.Names, File: sub, Names: []powerloss.Name{{Name: "b", File: a}}},
		{Kind: powerloss.Names, File: sub, Names: []powerloss.Name{{Name: "b"}, {Name: "c", File: a}}},
		{Kind: powerloss.Names, File: sub, Names: []powerloss.Name{{Name: "a"}}},
		{Kind: powerloss.Sync, File: sub, Since: 12},
		{Kind: powerloss.Truncate, File: a},
		{Kind: powerloss.Mark, Text: "done"},
	}
	got := mustRun(t, tempDir(t), "files")
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestRunRefuses checks that Recorder.Run fails if a process maps a file for writing, because such writes cannot be
// traced.
func TestRunRefuses(t *testing.T) {
	dir := tempDir(t)
	r := mustRecorder(t, dir)
	err := r.Run([]string{os.Args[0], dir}, append(childEnv("files"), "MAP=1"))
	if err == nil || !strings.Contains(err.Error(), "mmap for writing") {
		t.Errorf("run: %v", err)
	}
}

// TestRunToDeath checks that DieAtSync kills a process before the chosen sync, and that the next process continues the
// op log.
func TestRunToDeath(t *testing.T) {
	dir := tempDir(t)
	r := mustRecorder(t, dir)
	for range 2 {
		if err := r.Run([]string{os.Args[0], dir}, childEnv("death")); err != nil {
			t.Fatal(err)
		}
	}
	want := []powerloss.Op{
		{Kind: powerloss.Names, File: powerloss.Root, Names: []powerloss.Name{{Name: "first", File: 2}}},
		{Kind: powerloss.Mark, Text: "die at sync 1 true"},
		{Kind: powerloss.Sync, File: 2, Since: 2},
		{Kind: powerloss.Truncate, File: 2},
		{Kind: powerloss.Mark, Text: "die at sync 1 true"},
		{Kind: powerloss.Sync, File: 2, Since: 5},
	}
	if d := cmp.Diff(want, r.Record()); d != "" {
		t.Error(d)
	}
}

func childDeath(dir string) error {
	f, err := os.Create(filepath.Join(dir, "first"))
	d, err2 := os.Open(dir)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	m := powerloss.NewMarker()
	return errors.Join(m.DieAtSync(1, true), f.Sync(), d.Sync(), m.Mark("alive"))
}

func mustRecorder(t *testing.T, dir string) *powerloss.Recorder {
	t.Helper()
	r, err := powerloss.NewRecorder(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustRun(t *testing.T, dir string, modes ...string) []powerloss.Op {
	t.Helper()
	r := mustRecorder(t, dir)
	for _, mode := range modes {
		if err := r.Run([]string{os.Args[0], dir}, childEnv(mode)); err != nil {
			t.Fatal(err)
		}
	}
	return r.Record()
}
