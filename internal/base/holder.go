// Package holder reports which processes have a file open. Its results are for messages only, because they may be out
// of date at any moment. Start with HoldersOf.
//
// The package reads /proc, so it finds nothing on systems other than Linux, and no processes of other users. It starts
// no goroutine and has no state.
package base

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

type Holder struct {
	PID int
	// Name is the name of the program as the kernel reports it.
	Name string
}

func (h Holder) String() string { return fmt.Sprintf("process %d (%s)", h.PID, h.Name) }

// OpenHere reports whether the current process has the file open.
func OpenHere(path string) bool {
	file, err := os.Stat(path)
	return err == nil && hasOpen("/proc/self/fd", file)
}

// HoldersOf returns the other processes that have the file open, as far as /proc shows them.
func HoldersOf(path string) []Holder {
	file, err := os.Stat(path)
	if err != nil {
		return nil
	}
	// Glob fails only for a malformed pattern.
	dirs, _ := filepath.Glob("/proc/[0-9]*/fd")
	var all []Holder
	for _, dir := range dirs {
		process := filepath.Dir(dir)
		pid, err := strconv.Atoi(filepath.Base(process))
		if err != nil || pid == os.Getpid() || !hasOpen(dir, file) {
			continue
		}
		name, _ := os.ReadFile(filepath.Join(process, "comm")) // the name is empty if the process has ended since
		all = append(all, Holder{pid, strings.TrimSpace(string(name))})
	}
	return all
}

func hasOpen(dir string, file os.FileInfo) bool {
	// ReadDir fails if the process has ended or belongs to another user, which counts as no open files.
	fds, _ := os.ReadDir(dir)
	for _, fd := range fds {
		if open, err := os.Stat(filepath.Join(dir, fd.Name())); err == nil && os.SameFile(open, file) {
			return true
		}
	}
	return false
}
