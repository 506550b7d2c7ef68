package powerloss

import (
	"fmt"
	"os"
)

// Kind is the effect of a traced system call (Op) on the disk.
type Kind uint8

const (
	// Write writes Data to a file at Offset.
	Write Kind = iota
	Truncate
	// Names changes entries of a directory, such as a rename. A power loss keeps all of these changes or none.
	Names
	// Sync makes those ops on the file or directory durable that precede op number Since.
	Sync
	// Mark is the point at which the traced process reported the line Text. It changes no file.
	Mark
)

// Root is the number of the directory that contains all files. It is durable from the start.
const Root = 1

// Op is a successful system call. It is added to the op log when the call has returned.
type Op struct {
	Kind Kind
	// File is the number of the file or directory. A renamed file keeps its number.
	File   int
	Offset int64
	Data   []byte
	Names  []Name
	// Since, of a Sync, is the index of the first op that had not returned when the sync began. That op and later ops may
	// be unsynced.
	Since int
	Text  string
}

// Name is a directory entry as an op leaves it.
type Name struct {
	Name string
	// File is the number of the entry's file; 0 if the entry was removed.
	File int
	Dir  bool
}

// markFD is the file descriptor with which a traced process adds texts to the op log.
const markFD = 3

// Marker adds texts to the op log of the Recorder that runs this process.
type Marker struct{ f *os.File }

// NewMarker returns the Marker of this process, which a Recorder must have started.
func NewMarker() *Marker { return &Marker{os.NewFile(markFD, "marks")} }

// Mark adds text, of at most 4096 bytes, to the op log, after all ops that have returned.
func (m *Marker) Mark(text string) error {
	_, err := m.f.WriteString(text)
	return err
}

// dieAt is the prefix of the text with which DieAtSync asks the Recorder to kill the process.
const dieAt = "die at sync "

// DieAtSync makes the Recorder kill this process before its nth sync from now on, counting syncs of directories or of
// files.
func (m *Marker) DieAtSync(n int, dir bool) error { return m.Mark(fmt.Sprint(dieAt, n, " ", dir)) }
