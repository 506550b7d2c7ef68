package snapshot

import (
	"io"
	"os"

	"github.com/larder-dev/larder/internal/layout"
)

// Writer and its options write files that Save cannot: with a given header, id, version or block size.
type (
	Writer        = writer
	WriterOptions = writerOptions
)

// NewWriter writes the prologue of a snapshot.
func NewWriter(w io.Writer, h Header, o WriterOptions) (*Writer, error) { return newWriter(w, h, o) }

// WithBlocks sets the block size: with small blocks, few objects fill many.
func WithBlocks(o WriterOptions, bytes int) WriterOptions {
	o.block = bytes
	return o
}

// WithID sets the file id: equal contents then give equal files.
func WithID(o WriterOptions, id [8]byte) WriterOptions {
	o.id = layout.ID(id)
	return o
}

// WithVersion sets the format version in the prologue.
func WithVersion(o WriterOptions, version uint32) WriterOptions {
	o.version = version
	return o
}

// WithPages sets the page size of a live server's list.
func WithPages(o SaveOptions, objects int64) SaveOptions {
	o.pageSize = objects
	return o
}

// SaveAt writes the file at path as all saves do, so that a test can pause one of two concurrent saves.
func SaveAt(path string, o SaveOptions, write func(w io.Writer) error) error {
	_, err := saveAt(path, o, func(f *os.File) (Saved, error) { return Saved{}, write(f) })
	return err
}
