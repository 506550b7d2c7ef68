package store

import (
	"errors"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/engine"
)

// Errors of opening a file.
var (
	// ErrLocked says that another process, or another Store of this process, has locked the file.
	ErrLocked = boltfile.ErrLocked
	// ErrNewerFormat says that the file was written by a newer version of Larder.
	ErrNewerFormat = boltfile.ErrNewerFormat
	// ErrExists says that a file exists where a store was to be created. The file is left alone.
	ErrExists = boltfile.ErrExists
	// ErrForeign says that the file is not a store. The file is left alone.
	ErrForeign = boltfile.ErrForeign
)

// Errors of reading and writing.
var (
	// ErrClosed says that the store has been closed.
	ErrClosed = boltfile.ErrClosed
	// ErrReadOnly says that the store was opened for reading.
	ErrReadOnly = boltfile.ErrReadOnly
	// ErrNoSpace says that the disk, the quota or Options.MaxSize is full. Nothing was written; try again later.
	ErrNoSpace = boltfile.ErrNoSpace
	// ErrOutcomeUnknown says that a write or an fsync failed, and may have taken effect. Nothing is written until Rebuild.
	ErrOutcomeUnknown = boltfile.ErrOutcomeUnknown
	// ErrReplaced says that the store's name now belongs to another file, for example a restored backup. The store leaves
	// that file alone and refuses writes; reads are served from memory and the old file. If the other file is moved away,
	// the store writes its contents under the name again. A restarted process opens the other file.
	ErrReplaced = boltfile.ErrReplaced
	// ErrOverwritten says that another file, such as an older copy, has been copied over the open file. Every transaction
	// checks for this, at least every ten seconds. After that the store neither reads nor writes the file. Close the
	// store, restore the right file, and open it again.
	ErrOverwritten = boltfile.ErrOverwritten
	// ErrStillWriting says that the caller has stopped waiting for a write that the disk has not finished, or for work
	// that waits for the write. The write goes on in the background, and this process keeps the file locked until it ends.
	ErrStillWriting = boltfile.ErrStillWriting
	// ErrSlowDisk says that a write has not returned for ten seconds. Changes are only in memory until it does.
	ErrSlowDisk = boltfile.ErrSlowDisk
	// ErrNoIndex says that there is no index of that name.
	ErrNoIndex = engine.ErrNoIndex
	// ErrReplaceLost says that Rebuild has lost objects of the collection during a Replacement, which must be aborted.
	ErrReplaceLost = engine.ErrReplaceLost
	// ErrReplacing says that a Replacement of the collection is open, so that other writes are refused.
	ErrReplacing = engine.ErrReplacing
)

func isDamaged(err error) bool { return errors.Is(err, entry.ErrDamaged) }
