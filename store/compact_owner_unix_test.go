//go:build unix

package store_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// giveAway makes the file readable for its group and, if the test runs as root, changes its owner and group. It returns
// the resulting owner, group and mode.
func giveAway(t *testing.T, path string) ownership {
	t.Helper()
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(path, 65532, 65533); err != nil {
			t.Fatal(err)
		}
	}
	return ownershipOf(t, path)
}

type ownership struct {
	uid, gid uint32
	mode     os.FileMode
}

func ownershipOf(t *testing.T, path string) ownership {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	return ownership{st.Uid, st.Gid, info.Mode()}
}

// TestCompactKeepsTheOwner matters because root may compact or rekey the store of a service.
func TestCompactKeepsTheOwner(t *testing.T) {
	keys, err := seal.ParseKeys([]byte(rekeyKeys))
	if err != nil {
		t.Fatal(err)
	}
	o := store.Options{Logger: &quiet, Encryption: &seal.Encryption{Keys: keys,
		Resources: []schema.GroupResource{{Resource: "pods"}}}}
	for name, anew := range map[string]func(path string) error{
		"compact": func(path string) error { _, err := store.Compact(t.Context(), path, o); return err },
		"rekey":   func(path string) error { _, err := store.Rekey(t.Context(), path, o); return err },
		"open": func(path string) error {
			s := mustOpen(t, path, o)
			_, err := s.Compact(t.Context())
			mustClose(t, s)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "store")
			mustClose(t, mustOpen(t, path, o))
			before, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			want := giveAway(t, path)
			if err := anew(path); err != nil {
				t.Fatal(err)
			}
			if got := ownershipOf(t, path); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			if after, err := os.Stat(path); err != nil || os.SameFile(before, after) {
				t.Errorf("it is the old file: %v", err)
			}
			wantNames(t, dir, "store")
		})
	}
}
