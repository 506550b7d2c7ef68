package snapshot_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

// childMode is the environment variable that selects the function of a child process that a test will kill.
const childMode = "LARDER_SNAPSHOT_TEST_CHILD"

func child() int {
	fmt.Println("begun")
	var err error
	for n := 1; err == nil; n++ {
		switch mode := os.Getenv(childMode); mode {
		case "save":
			err = childSave(os.Args[1])
		case "restore":
			err = childRestore(os.Args[1])
		default:
			err = fmt.Errorf("unknown child mode %q", mode)
		}
		fmt.Println(n)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func childSave(dir string) error {
	s, err := store.Open(filepath.Join(dir, "a.db"), store.Options{Logger: &quiet, LockTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	_, err = snapshot.SaveStore(context.Background(), s, filepath.Join(dir, "a.larder"),
		snapshot.SaveOptions{Secrets: true})
	return errors.Join(err, s.Close())
}

func childRestore(dir string) error {
	to := filepath.Join(dir, "b.db")
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, err := snapshot.Restore(context.Background(), filepath.Join(dir, "a.larder"), to, snapshot.RestoreOptions{
		Secrets: true, Import: store.ImportOptions{Store: store.Options{Logger: &quiet, LockTimeout: 10 * time.Second}},
	})
	return err
}

// killChild starts a child, and kills it some time after its first output.
func killChild(t *testing.T, mode, dir string, after time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), childMode+"="+mode, "GORACE=atexit_sleep_ms=0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var problems strings.Builder
	cmd.Stderr = &problems
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for begun := false; lines.Scan(); begun = true {
		if !begun {
			timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
			defer timer.Stop()
		}
	}
	_ = cmd.Wait()
	if problems.Len() > 0 {
		t.Fatalf("the child: %s", problems.String())
	}
}

func kills(few int) int { return soaked(few, 20*few) }

// soaked returns the size of a test: test in make test, soak in make soak.
func soaked(test, soak int) int {
	if os.Getenv("LARDER_SOAK") != "" {
		return soak
	}
	return test
}

// debris returns the number of unfinished files of saves and restores in a directory.
func debris(t *testing.T, dir string) (n int) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"+suffixNew+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

// TestKilledWhileSaving checks that a kill leaves the store and the old or new snapshot whole.
func TestKilledWhileSaving(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.larder")
	s := savedStore(t, filepath.Join(dir, "a.db"))
	if _, err := snapshot.SaveStore(t.Context(), s, path, snapshot.SaveOptions{Secrets: true}); err != nil {
		t.Fatal(err)
	}
	// The open File must stay valid: a save replaces the file at path, and does not change the open file.
	want := mustOpenFile(t, path, snapshot.OpenOptions{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	left := 0
	for kill := 0; kill < kills(10) || left == 0 && kill < 20*kills(10); kill++ {
		// Later kills follow until a kill has interrupted a save.
		killChild(t, "save", dir, time.Duration(random.IntN(60_000*(1+kill/kills(10))))*time.Microsecond)
		left += min(1, debris(t, dir))
		f, err := snapshot.Open(path, snapshot.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		wantSame(t, want, f)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err := childSave(dir); err != nil {
			t.Fatal(err)
		}
		wantNames(t, dir, "a.db", "a.larder")
	}
	wantSound(t, mustOpen(t, filepath.Join(dir, "a.db")))
	if left == 0 {
		t.Error("no kill came while anything was being made")
	}
	t.Logf("%d kills have left something", left)
}

// TestKilledWhileRestoring checks that a kill leaves a whole store or none.
func TestKilledWhileRestoring(t *testing.T) {
	dir, from := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "a.larder")
	s := savedStore(t, filepath.Join(from, "a.db"))
	if _, err := snapshot.SaveStore(t.Context(), s, path, snapshot.SaveOptions{Secrets: true}); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	left, whole := 0, 0
	for kill := 0; kill < kills(10) || left == 0 && kill < 20*kills(10); kill++ {
		// Later kills follow until a kill has interrupted a restore.
		killChild(t, "restore", dir, time.Duration(random.IntN(200_000*(1+kill/kills(10))))*time.Microsecond)
		left += min(1, debris(t, dir))
		if _, err := os.Stat(filepath.Join(dir, "b.db")); err == nil {
			whole++
		} else if err := childRestore(dir); err != nil {
			t.Fatal(err)
		}
		restored, err := store.Open(filepath.Join(dir, "b.db"), store.Options{Logger: &quiet})
		if err != nil {
			t.Fatal(err)
		}
		wantNames(t, dir, "a.larder", "b.db")
		if restored.Quarantined() != "" {
			t.Fatal("a good file was moved aside")
		}
		wantSound(t, restored)
		wantSame(t, snapshot.StoreSource(s), snapshot.StoreSource(restored))
		if err := restored.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if left == 0 {
		t.Error("no kill came while a store was being made")
	}
	t.Logf("%d kills have left something, %d a whole store", left, whole)
}
