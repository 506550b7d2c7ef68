package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/read"
	"github.com/larder-dev/larder/store/internal/state"
)

// ErrNotKept is returned if the store does not keep the collection's changes for readers; see Collection.RetainChanges.
var ErrNotKept = errors.New("the store does not keep changes for readers")

// SinceError says that the changelog does not have the changes since an offset.
type SinceError struct {
	// Since is the offset that was asked for. Oldest and Last are the lowest and the highest that can be asked for.
	Since, Oldest, Last uint64
}

// Error implements error.
func (e *SinceError) Error() string {
	if e.Since > e.Last {
		return fmt.Sprintf(
			"the changes have come to %d, and not to %d: it was another store's, or of before this one was made anew", e.Last,
			e.Since)
	}
	return fmt.Sprintf("the changes since %d are not kept any more; the oldest that can be asked for are those since %d",
		e.Since, e.Oldest)
}

// Kept says which changes of a collection the store keeps for readers.
type Kept struct {
	// For is how long deletes are kept; 0 if no changes are kept.
	For time.Duration
	// Oldest is the lowest offset that View.Changes accepts. Last is the offset of the last change; it grows with each
	// commit that writes objects, whether changes are kept or not.
	Oldest, Last uint64
}

// RetainChanges keeps the changelog for readers that are not registered: a reader in any process that has the file open
// passes its offset to View.Changes and gets the changes since. A delete is kept for retain, counted while the store is
// open, and only as one of the last 100,000. A full store drops deletes before it refuses a write. Zero ends the
// retention, and frees what durable handlers do not need. The setting is stored in the file. It costs one more entry a
// write, as a durable handler does.
func (c *Collection) RetainChanges(ctx context.Context, retain time.Duration) error {
	if err := c.retainChanges(ctx, retain); err != nil {
		return fmt.Errorf("retain the changes of %s: %w", c.id, err)
	}
	return nil
}

func (c *Collection) retainChanges(ctx context.Context, retain time.Duration) error {
	switch {
	case retain < 0:
		return fmt.Errorf("for %s: it must not be negative", retain)
	case c.readOnly:
		return ErrReadOnly
	}
	if err := c.lockWrites(ctx); err != nil {
		return err
	}
	defer c.mu.Unlock()
	if was, err := c.cursors.Retained(); err != nil || was == retain {
		return err
	}
	what := c.writing()
	if retain == 0 {
		what = forgetting
	}
	err := c.writeLockedFor(ctx, what, func(w *writer) error { return w.log.Retain(retain) })
	if err == nil {
		c.cursors.SetRetained(retain)
	}
	return err
}

// Kept returns which changes are kept for readers, as of the last commit.
func (c *Collection) Kept(ctx context.Context) (Kept, error) { return kept(ctx, &c.read) }

// Kept returns which changes are kept for readers, as of the last commit.
func (v *View) Kept(ctx context.Context) (Kept, error) { return kept(ctx, &v.read) }

func kept(ctx context.Context, r *read.Reader) (k Kept, err error) {
	err = r.View(ctx, func(b *bolt.Bucket) error {
		st, err := state.Get(b, r.Name)
		if err == nil {
			k = keptBy(st.Log)
		}
		return err
	})
	return k, err
}

// Kept returns which changes of a collection are kept, as Collection.Kept does. The collection need not be open.
func (s *Store) Kept(ctx context.Context, id entry.Identity) (Kept, error) {
	id, err := id.Canonical()
	if err != nil {
		return Kept{}, err
	}
	r := s.reader(id.ID(), nil)
	return kept(ctx, &r)
}

// ChangelogID identifies the changelog of a collection: offsets of changelogs with different ids must not be compared.
// It is 8 hex digits, which stay the same until the file is made anew; "" if the file has no id.
func (s *Store) ChangelogID(ctx context.Context, id entry.Identity) (log string, err error) {
	if id, err = id.Canonical(); err != nil {
		return "", err
	}
	err = s.file.View(ctx, func(tx *bolt.Tx) error {
		root := tx.Bucket(format.BucketLarder)
		if root == nil || root.Get(format.KeyFileID) == nil {
			return nil
		}
		sum := sha256.Sum256(slices.Concat(root.Get(format.KeyFileID), []byte(id.ID())))
		log = hex.EncodeToString(sum[:4])
		return nil
	})
	return log, err
}

func keptBy(log changelog.State) Kept {
	k := Kept{For: log.Retain, Last: log.Last()}
	if k.For > 0 && log.Kept() {
		k.Oldest = log.Oldest()
	}
	return k
}

// Changes returns a page of the changes that were committed after an offset, in order: a live object once, in its last
// state, and a deleted one in its last known state. It fails with ErrNotKept, or with a *SinceError if after is not
// between Oldest and Last of Kept.
func (v *View) Changes(ctx context.Context, after uint64) (ChangelogPage, error) {
	p, err := readChanges(ctx, &v.read, func(b *bolt.Bucket, p *changesPage) error {
		switch k := keptBy(p.state.Log); {
		case k.For == 0:
			return ErrNotKept
		case after < k.Oldest || after > k.Last:
			return &SinceError{Since: after, Oldest: k.Oldest, Last: k.Last}
		}
		return p.readAfter(b, after, true)
	})
	if err != nil {
		return p, fmt.Errorf("changes of %s: %w", v.id, err)
	}
	return p, nil
}

// Changed returns a channel that is closed after the next commit of the collection; nil if this process does not have
// the collection open for writing.
func (v *View) Changed() <-chan struct{} {
	for _, c := range v.store.live.list() {
		if _, err := c.cursors.Retained(); err == nil && c.read.Name == v.read.Name && !c.readOnly {
			return c.cursors.Changed()
		}
	}
	return nil
}
