package powerloss

import (
	"fmt"
	"os"
)

// Kind is the effect of a recorded system call (Op) on the disk.
type Kind uint8

const (
	// Write writes Data to a file at Offset.
	Write Kind = iota
	// Truncate sets the size of a file to Offset.
	Truncate
	// Names is an operation that changes entries of a directory, such as a rename. A power loss keeps all or none of them.
	Names
	// Sync makes those ops on the file or directory durable that precede op number Since.
	Sync
	// Mark is no file operation: it is the time at which the recorded process reported a line, the field Text.
	Mark
)

// Root is the number of the directory that contains all files. It is durable from the start.
const Root = 1

// Op is a system call that has succeeded. It is recorded when the call has returned.
type Op struct {
	Kind Kind
	// File is the number of the file or directory. A file keeps its number when it is renamed.
	File   int
	Offset int64
	Data   []byte
	Names  []Name
	// Since, of a Sync, is the index of the first op that had not returned when the sync began, and so may not be
	// synced.
	Since int
	Text  string
}

// Name is an entry of a directory after an op has changed it.
type Name struct {
	Name string
	// File is the number of the file that the entry refers to; 0 if the entry was removed.
	File int
	// Dir is true if the entry is a directory.
	Dir bool
}

// markFD is the file descriptor that a recorded process uses to add texts to the record.
const markFD = 3

// Marker adds texts to the record of the Recorder that runs this process.
type Marker struct{ f *os.File }

// NewMarker returns the Marker of this process, which a Recorder must have started.
func NewMarker() *Marker { return &Marker{os.NewFile(markFD, "marks")} }

// Mark adds text, of at most 4096 bytes, to the record, after all ops that have returned.
func (m *Marker) Mark(text string) error {
	_, err := m.f.WriteString(text)
	return err
}

// dieAt is the prefix of the text with which DieAtSync asks the Recorder to kill the process.
const dieAt = "die at sync "

// DieAtSync makes the Recorder kill this process before its nth sync from now on, counting syncs of directories or of
// files.
func (m *Marker) DieAtSync(n int, dir bool) error { return m.Mark(fmt.Sprint(dieAt, n, " ", dir)) }
