// Package holder reports which processes have a file open, for messages: the answer may be out of date at any moment.
// Start with Of.
//
// It reads /proc, so it finds nothing on systems other than Linux, nor processes of other users. It starts no goroutine
// and has no state.
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
	// Name is the name of the process's program as the kernel reports it.
	Name string
}

// String describes the process: "process 17 (larder)".
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
	// Glob fails only for a malformed pattern, and this one is well formed
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

// hasOpen reports whether a process has the file open. dir is the process's directory in /proc that lists its open
// files.
func hasOpen(dir string, file os.FileInfo) bool {
	// an error is treated as no open files: the process has ended or belongs to another user
	fds, _ := os.ReadDir(dir)
	for _, fd := range fds {
		if open, err := os.Stat(filepath.Join(dir, fd.Name())); err == nil && os.SameFile(open, file) {
			return true
		}
	}
	return false
}
