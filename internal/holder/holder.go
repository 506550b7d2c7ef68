// Package holder tells which processes have a file open, for messages: a process may come or go at any moment. Start
// with Of.
//
// It reads /proc: elsewhere than on Linux, and of other users' processes, it knows nothing. It starts nothing and keeps
// nothing.
package holder

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Holder is a process that has a file open.
type Holder struct {
	PID int
	// Name of its program, as the kernel knows it.
	Name string
}

// String says which process it is: "process 17 (larder)".
func (h Holder) String() string { return fmt.Sprintf("process %d (%s)", h.PID, h.Name) }

// This reports whether this process has the file open.
func This(path string) bool {
	file, err := os.Stat(path)
	return err == nil && hasOpen("/proc/self/fd", file)
}

// Of returns the other processes that have the file open, as far as /proc shows them.
func Of(path string) []Holder {
	file, err := os.Stat(path)
	if err != nil {
		return nil
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*/fd") // the pattern is well formed
	var all []Holder
	for _, dir := range dirs {
		process := filepath.Dir(dir)
		pid, err := strconv.Atoi(filepath.Base(process))
		if err != nil || pid == os.Getpid() || !hasOpen(dir, file) {
			continue
		}
		name, _ := os.ReadFile(filepath.Join(process, "comm")) // it may have ended
		all = append(all, Holder{pid, strings.TrimSpace(string(name))})
	}
	return all
}

// hasOpen reports whether a process, by its directory of open files, has the file open.
func hasOpen(dir string, file os.FileInfo) bool {
	fds, _ := os.ReadDir(dir) // another user's, or it has ended
	for _, fd := range fds {
		if open, err := os.Stat(filepath.Join(dir, fd.Name())); err == nil && os.SameFile(open, file) {
			return true
		}
	}
	return false
}
