//go:build amd64 || arm64

package powerloss

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

type call struct {
	tid   int
	args  [6]uint64
	since int // number of recorded ops when the call began
	// length of the op log when the call began
	file  int
	paths []string
	// positioned is true for a call with an explicit file offset, such as pwrite64.
	positioned bool
	result     int64
	do         func(f *files, c call) error
}

type syscallKind struct {
	name string
	// fd is the position of the descriptor among the arguments, counted from 1, or 0 if there is no descriptor.
	fd int
	// paths are the positions of the path arguments, each preceded by the position of its directory descriptor; 0
	// stands for the working directory.
	paths []int
	do    func(f *files, c call) error // adds the op of a successful call; nil: Recorder.Run fails at this call
}

// syscallKinds are the calls that may change a file. All other calls are ignored.
var syscallKinds = map[uint64]syscallKind{
	unix.SYS_WRITE:     {name: "write", fd: 1, do: wrote},
	unix.SYS_PWRITE64:  {name: "pwrite64", fd: 1, do: wrote},
	unix.SYS_FTRUNCATE: {name: "ftruncate", fd: 1, do: truncated},
	unix.SYS_FSYNC:     {name: "fsync", fd: 1, do: synced},
	unix.SYS_FDATASYNC: {name: "fdatasync", fd: 1, do: synced},
	unix.SYS_OPENAT:    {name: "openat", paths: []int{1, 2}, do: opened},
	unix.SYS_MKDIRAT:   {name: "mkdirat", paths: []int{1, 2}, do: madeDir},
	unix.SYS_UNLINKAT:  {name: "unlinkat", paths: []int{1, 2}, do: unlinked},
	unix.SYS_LINKAT:    {name: "linkat", paths: []int{1, 2, 3, 4}, do: linked},
	unix.SYS_RENAMEAT:  {name: "renameat", paths: []int{1, 2, 3, 4}, do: renamed},

	unix.SYS_MMAP:            {name: "mmap for writing", fd: 5},
	unix.SYS_WRITEV:          {name: "writev", fd: 1},
	unix.SYS_PWRITEV:         {name: "pwritev", fd: 1},
	unix.SYS_PWRITEV2:        {name: "pwritev2", fd: 1},
	unix.SYS_FALLOCATE:       {name: "fallocate", fd: 1},
	unix.SYS_SENDFILE:        {name: "sendfile", fd: 1},
	unix.SYS_SPLICE:          {name: "splice", fd: 3},
	unix.SYS_COPY_FILE_RANGE: {name: "copy_file_range", fd: 3},
	unix.SYS_SYNC_FILE_RANGE: {name: "sync_file_range", fd: 1},
	unix.SYS_SYNCFS:          {name: "syncfs", fd: 1},
	unix.SYS_IOCTL:           {name: "ioctl", fd: 1},
	unix.SYS_OPENAT2:         {name: "openat2", paths: []int{1, 2}},
	unix.SYS_MKNODAT:         {name: "mknodat", paths: []int{1, 2}},
	unix.SYS_RENAMEAT2:       {name: "renameat2", paths: []int{1, 2, 3, 4}},
	unix.SYS_SYMLINKAT:       {name: "symlinkat", paths: []int{2, 3}},
	unix.SYS_TRUNCATE:        {name: "truncate", paths: []int{0, 1}},
}

// enter handles the begin of a call. It returns true if a successful call is to be added to the op log.
func (f *files) enter(number uint64, c *call) (bool, error) {
	kind, ok := syscallKinds[number]
	if !ok {
		kind, ok = oldKinds[number]
	}
	if !ok || number == unix.SYS_MMAP && (c.args[2]&unix.PROT_WRITE == 0 || c.args[3]&unix.MAP_SHARED == 0) {
		return false, nil
	}
	if number == unix.SYS_WRITE && c.args[0] == markFD {
		c.do = marked
		return true, nil
	}
	if kind.fd > 0 {
		c.file = f.ofDescriptor(c.tid, c.args[kind.fd-1])
	}
	ours := c.file != 0
	for i := 0; i < len(kind.paths); i += 2 {
		path, inside, err := f.path(c, kind.paths[i], kind.paths[i+1])
		if err != nil {
			return false, fmt.Errorf("%s: read a path: %w", kind.name, err)
		}
		c.paths = append(c.paths, path)
		if i > 0 && inside != ours {
			return false, fmt.Errorf("%s into or out of %s cannot be recorded", kind.name, f.root)
		}
		ours = inside
	}
	if ours && kind.do == nil {
		return false, fmt.Errorf("%s beneath %s cannot be recorded: teach internal/powerloss what it does", kind.name, f.root)
	}
	syncs := number == unix.SYS_FSYNC || number == unix.SYS_FDATASYNC
	if ours && syncs && f.syncsLeft > 0 && f.dirs[c.file] == f.dirSyncs {
		if f.syncsLeft--; f.syncsLeft == 0 {
			return false, errDie
		}
	}
	c.positioned = number == unix.SYS_PWRITE64
	c.do = kind.do
	return ours, nil
}

// path returns the path in an argument, relative to the traced directory, and whether it is below that directory.
func (f *files) path(c *call, dir, arg int) (path string, inside bool, err error) {
	path, err = readString(c.tid, c.args[arg-1])
	if err != nil {
		return "", false, err
	}
	if !filepath.IsAbs(path) {
		base := fmt.Sprintf("/proc/%d/cwd", c.tid)
		if dir > 0 && int32(c.args[dir-1]) != unix.AT_FDCWD {
			base = fmt.Sprintf("/proc/%d/fd/%d", c.tid, int32(c.args[dir-1]))
		}
		if base, err = os.Readlink(base); err != nil {
			return "", false, err
		}
		path = base + "/" + path
	}
	path, err = filepath.Rel(f.root, path)
	return path, err == nil && path != ".." && !strings.HasPrefix(path, "../"), nil
}

func readString(tid int, at uint64) (string, error) {
	var all []byte
	for len(all) <= unix.PathMax {
		// The next memory page may be unmapped, so a read must not cross the page boundary.
		page := make([]byte, 4096-at%4096)
		n, err := readMemory(tid, at, page)
		if err != nil {
			return "", err
		}
		if end := bytes.IndexByte(page[:n], 0); end >= 0 {
			return string(append(all, page[:end]...)), nil
		}
		all, at = append(all, page[:n]...), at+uint64(n)
	}
	return "", errors.New("it does not end")
}

func readMemory(tid int, at uint64, to []byte) (int, error) {
	local := []unix.Iovec{{Base: &to[0]}}
	local[0].SetLen(len(to))
	n, err := unix.ProcessVMReadv(tid, local, []unix.RemoteIovec{{Base: uintptr(at), Len: len(to)}}, 0)
	if err != nil {
		return 0, fmt.Errorf("read the memory of the process: %w", err)
	}
	return n, nil
}

func written(c call) ([]byte, error) {
	data := make([]byte, c.result)
	if len(data) == 0 {
		return nil, nil
	}
	n, err := readMemory(c.tid, c.args[1], data)
	if err == nil && n < len(data) {
		err = fmt.Errorf("%d of %d bytes that were written could be read", n, len(data))
	}
	return data, err
}
