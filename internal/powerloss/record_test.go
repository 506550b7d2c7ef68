package powerloss

import (
	"fmt"
	"os"
)

// Kind is what an Op has done.
type Kind uint8

const (
	// Write put Data at Offset.
	Write Kind = iota
	// Truncate set the size to Offset.
	Truncate
	// Names changed names in a directory, all or none of them.
	Names
	// Sync has everything on the disk that was done to the file or directory before the op Since.
	Sync
	// Mark is Text that the process has said.
	Mark
)

// Root is the File of the directory beneath which everything happens. It is on the disk from the beginning.
const Root = 1

// Op is a system call that has succeeded. An op is recorded when the call has returned.
type Op struct {
	Kind Kind
	// File is the number of the file or directory that it was done to. A file keeps its number under other names.
	File   int
	Offset int64
	Data   []byte
	Names  []Name
	// Since is, for Sync, the index in the record that the first op has that may not have been synced: those that
	// follow had not returned when the call began.
	Since int
	Text  string
}

// Name is what a name in a directory stands for after an op.
type Name struct {
	Name string
	// File is its number; 0 if the name is gone.
	File int
	// Dir: the file is a directory.
	Dir bool
}

// markFD is the descriptor that a process which is recorded has its Marker on.
const markFD = 3

// Marker is how a process that a Recorder runs adds to the record.
type Marker struct{ f *os.File }

// NewMarker returns that of this process.
func NewMarker() *Marker { return &Marker{os.NewFile(markFD, "marks")} }

// Mark adds text to the record, of 4096 bytes at most, behind everything that has returned.
func (m *Marker) Mark(text string) error {
	_, err := m.f.WriteString(text)
	return err
}

// dieAt is the beginning of what DieAtSync says.
const dieAt = "die at sync "

// DieAtSync has this process killed when it is about to sync something for the nth time from now on, files or
// directories, before that has begun.
func (m *Marker) DieAtSync(n int, dir bool) error { return m.Mark(fmt.Sprint(dieAt, n, " ", dir)) }
