package snapshot

import (
	"io"
	"os"

	"github.com/larder-dev/larder/snapshot/internal/layout"
)

// What tests of this package reach of its inside, all of it, each with what needs it.

// Writer and its options make files that no Source has: of one header, one id, small blocks, another version.
type (
	Writer        = writer
	WriterOptions = writerOptions
)

// NewWriter writes the beginning of a snapshot.
func NewWriter(w io.Writer, h Header, o WriterOptions) (*Writer, error) { return newWriter(w, h, o) }

// WithBlocks returns o for a Writer that closes a block at so many bytes: files of many blocks, of few objects.
func WithBlocks(o WriterOptions, bytes int) WriterOptions {
	o.block = bytes
	return o
}

// WithID returns o for a Writer of a file with that id: two files that are equal, byte by byte.
func WithID(o WriterOptions, id [8]byte) WriterOptions {
	o.id = layout.ID(id)
	return o
}

// WithVersion returns o for a Writer of a file that says that it is of that version.
func WithVersion(o WriterOptions, version uint32) WriterOptions {
	o.version = version
	return o
}

// WithPages returns o for a save of a server that is asked for so many objects at a time.
func WithPages(o SaveOptions, objects int64) SaveOptions {
	o.pageSize = objects
	return o
}

// SaveAt writes the file at path as every save does: two saves at a time, one of which is held.
func SaveAt(path string, o SaveOptions, write func(w io.Writer) error) error {
	_, err := saveAt(path, o, func(f *os.File) (Saved, error) { return Saved{}, write(f) })
	return err
}
