package store

import (
	"errors"

	"github.com/larder-dev/larder/store/internal/boltfile"
)

// Errors of opening a file.
var (
	// ErrLocked: another process, or another Store of this one, holds the file.
	ErrLocked = boltfile.ErrLocked
	// ErrNewerFormat: the file was written by a newer version of Larder.
	ErrNewerFormat = errors.New("the store's format is newer than this program")
	// ErrExists: a store was to be made where there is a file already. It is left alone.
	ErrExists = errors.New("there is a file of that name already")
	// ErrForeign: the file is something else than a store. It is left alone.
	ErrForeign = boltfile.ErrForeign
)

// Errors of reading and writing.
var (
	// ErrClosed: the store has been closed.
	ErrClosed = boltfile.ErrClosed
	// ErrReadOnly: the store was opened for reading.
	ErrReadOnly = errors.New("the store is open for reading only")
	// ErrNoSpace: the disk, the quota or Options.MaxSize is full. Nothing was written;
	// try again later.
	ErrNoSpace = boltfile.ErrNoSpace
	// ErrOutcomeUnknown: a write or an fsync failed in a way that leaves open
	// whether it took effect. The file is not written any more until Rebuild.
	ErrOutcomeUnknown = errors.New("the store failed to reach the disk")
	// ErrReplaced: another file has the store's name now, such as a backup that somebody has copied there. It is left
	// alone. Nothing is written; what is served is in memory and in the file that was there. Move the other file away, and
	// what the store holds is written under the name again; or end the process, and the next one opens the other file.
	ErrReplaced = errors.New(
		"another file has taken the place of the store's file and is left alone: move it away to have the " +
			"store written there again, or end this process and start it again on that file")
	// ErrStillWriting: what was to be waited for no longer goes on: a write that the disk has not finished, or work behind
	// it. It ends when the disk lets it, and the file stays locked by this process until then.
	ErrStillWriting = errors.New(
		"the disk has not finished what was begun, and the file stays locked by this process until it has")
	// ErrSlowDisk: a write has not returned for ten seconds. What changes meanwhile is in memory only.
	ErrSlowDisk = errors.New("the disk has not finished a write for long")
	// ErrNoIndex: there is no index of that name.
	ErrNoIndex = errors.New("no such index")
	// ErrReplaceLost: Rebuild has lost objects of the collection while a list was
	// taken into it. Abort the list and begin another.
	ErrReplaceLost = errors.New("the store was rebuilt and has lost objects meanwhile; abort the list and begin another")
	// ErrReplacing: a Replacement is open.
	ErrReplacing = errors.New("a list is being taken in")
)
