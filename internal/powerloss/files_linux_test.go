//go:build amd64 || arm64

package powerloss

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// files are the files below the root that traced processes have created, and the op log of these files.
type files struct {
	root   string
	record []Op
	// names maps paths, relative to the root, to file numbers. The root is ".".
	names map[string]int
	// numbers maps inodes to the numbers that files have in the op log.
	numbers map[inode]int
	dirs    map[int]bool
	last    int
	// syncsLeft is the number of the sync before which the process is killed, or 0. It counts syncs of directories if
	// dirSyncs is set, and syncs of files otherwise.
	syncsLeft int
	dirSyncs  bool
}

type inode struct{ dev, ino uint64 }

func inodeOf(path string) (inode, error) {
	info, err := os.Stat(path)
	if err != nil {
		return inode{}, err
	}
	st := info.Sys().(*syscall.Stat_t)
	return inode{st.Dev, st.Ino}, nil
}

func (f *files) ofDescriptor(tid int, fd uint64) int {
	at, err := inodeOf(fmt.Sprintf("/proc/%d/fd/%d", tid, int32(fd)))
	if err != nil {
		return 0 // the descriptor is not open
	}
	return f.numbers[at]
}

func (f *files) add(op Op) { f.record = append(f.record, op) }

// rename adds an op that says which files the paths now name: numbers has the file number of each path. A path that is
// missing from numbers was removed. All paths must be in one directory.
func (f *files) rename(numbers map[string]int, paths ...string) error {
	op := Op{Kind: Names, File: f.names[filepath.Dir(paths[0])]}
	for _, path := range paths {
		if f.names[filepath.Dir(path)] != op.File || op.File == 0 {
			return fmt.Errorf("a change of %s, in several directories or in one that was not made, cannot be recorded", paths)
		}
		number := numbers[path]
		op.Names = append(op.Names, Name{Name: filepath.Base(path), File: number, Dir: f.dirs[number]})
		if f.names[path] = number; number == 0 {
			delete(f.names, path)
		}
	}
	f.add(op)
	return nil
}

func (f *files) make(path string, at inode, dir bool) error {
	f.last++
	f.numbers[at] = f.last // replaces a deleted file with the same inode number
	f.dirs[f.last] = dir
	return f.rename(map[string]int{path: f.last}, path)
}

func opened(f *files, c call) error {
	flags := int(c.args[2])
	if flags&unix.O_DSYNC != 0 || flags&unix.O_TMPFILE == unix.O_TMPFILE {
		return fmt.Errorf("open %s with the flags %#x cannot be recorded", c.paths[0], flags)
	}
	at, err := inodeOf(fmt.Sprintf("/proc/%d/fd/%d", c.tid, c.result))
	if err != nil {
		return err
	}
	number := f.names[c.paths[0]]
	switch {
	case number == 0 && flags&unix.O_CREAT != 0:
		return f.make(c.paths[0], at, false)
	case number == 0 || f.numbers[at] != number:
		return fmt.Errorf("%s was opened, and is not what is recorded", c.paths[0])
	case flags&unix.O_TRUNC != 0:
		f.add(Op{Kind: Truncate, File: number})
	}
	return nil
}

func madeDir(f *files, c call) error {
	at, err := inodeOf(filepath.Join(f.root, c.paths[0]))
	if err != nil {
		return err
	}
	return f.make(c.paths[0], at, true)
}

func unlinked(f *files, c call) error { return f.rename(nil, c.paths[0]) }

func linked(f *files, c call) error {
	return f.rename(map[string]int{c.paths[1]: f.names[c.paths[0]]}, c.paths[1])
}

func renamed(f *files, c call) error {
	number := f.names[c.paths[0]]
	if f.dirs[number] {
		return fmt.Errorf("a rename of the directory %s cannot be recorded", c.paths[0])
	}
	if number == f.names[c.paths[1]] {
		return nil // rename(2) does nothing if both paths name the same file
	}
	return f.rename(map[string]int{c.paths[1]: number}, c.paths[0], c.paths[1])
}

func wrote(f *files, c call) error {
	data, err := written(c)
	if err != nil {
		return err
	}
	offset := int64(c.args[3])
	if !c.positioned {
		if offset, err = position(c.tid, c.args[0]); err != nil {
			return err
		}
		offset -= c.result
	}
	f.add(Op{Kind: Write, File: c.file, Offset: offset, Data: data})
	return nil
}

func position(tid int, fd uint64) (at int64, err error) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", tid, int32(fd)))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(info)) {
		if _, err := fmt.Sscanf(line, "pos: %d", &at); err == nil {
			return at, nil
		}
	}
	return 0, fmt.Errorf("descriptor %d has no position", fd)
}

func truncated(f *files, c call) error {
	f.add(Op{Kind: Truncate, File: c.file, Offset: int64(c.args[1])})
	return nil
}

func synced(f *files, c call) error {
	f.add(Op{Kind: Sync, File: c.file, Since: c.since})
	return nil
}

func marked(f *files, c call) error {
	text, err := written(c)
	if rest, ok := strings.CutPrefix(string(text), dieAt); ok && err == nil {
		_, err = fmt.Sscan(rest, &f.syncsLeft, &f.dirSyncs)
	}
	f.add(Op{Kind: Mark, Text: string(text)})
	return err
}
