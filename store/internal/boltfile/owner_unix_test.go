//go:build unix

package boltfile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestNewOwnerOfTheSame checks that equal owners need no chown: a sandbox may kill the process for a chown.
func TestNewOwnerOfTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if uid, gid := newOwner(info, info); uid != -1 || gid != -1 {
		t.Errorf("%d, %d", uid, gid)
	}
	root, err := os.Stat("/")
	if err != nil {
		t.Fatal(err)
	}
	other := owned{root, &syscall.Stat_t{Uid: 65532, Gid: 65533}}
	if uid, gid := newOwner(other, root); uid != 65532 || gid != 65533 {
		t.Errorf("%d, %d", uid, gid)
	}
}

type owned struct {
	os.FileInfo
	stat *syscall.Stat_t
}

func (o owned) Sys() any { return o.stat }
