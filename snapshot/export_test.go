package snapshot

import (
	"io"
	"strings"

	"github.com/larder-dev/larder/entry"
)

// What tests of this package reach of its inside, all of it, each with what needs it.

// WithBlocks returns o for a Writer that closes a block at so many bytes: files of many blocks, of few objects.
func WithBlocks(o WriterOptions, bytes int) WriterOptions {
	o.block = bytes
	return o
}

// WithID returns o for a Writer of a file with that id: two files that are equal, byte by byte.
func WithID(o WriterOptions, id [8]byte) WriterOptions {
	o.id = id
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

// NextProgram returns the options of a program whose format is the next one and that reads this one, too. In this one
// UIDs and why a collection must be listed have an "old:" before them, which must be gone when it is read.
func NextProgram() (ReaderOptions, OpenOptions) {
	before := formats()[formatNow]
	before.collection = func(data []byte) (Collection, error) {
		c, err := parseCollection(data)
		c.MustRelist = strings.TrimPrefix(c.MustRelist, "old:")
		return c, err
	}
	before.cutRecord = func(data []byte) (entry.Entry, []byte, bool) {
		r, rest, ok := cutRecord(data)
		r.UID = strings.TrimPrefix(r.UID, "old:")
		return r, rest, ok
	}
	known := formats()
	known[formatNow+1] = known[formatNow]
	known[formatNow] = before
	return ReaderOptions{formats: known}, OpenOptions{formats: known}
}

// SaveAt writes the file at path as every save does: two saves at a time, one of which is held.
func SaveAt(path string, o SaveOptions, write func(w io.Writer) error) error {
	_, err := saveAt(path, o, func(w io.Writer, _ string) (Saved, error) { return Saved{}, write(w) })
	return err
}
