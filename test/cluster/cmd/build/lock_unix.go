//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lock waits until no other process builds the entry, so that each program is compiled once. The kernel releases the
// lock of a dead process.
func (c cache) lock() (unlock func(), err error) {
	if err := os.MkdirAll(c.root, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(c.root, c.name+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		fmt.Fprintln(os.Stderr, "cluster: another process is building; waiting for it")
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", f.Name(), err)
		}
	}
	return func() { f.Close() }, nil
}
