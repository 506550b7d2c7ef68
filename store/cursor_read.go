package store

import (
	"context"
	"errors"
	"slices"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/guest"
	"github.com/larder-dev/larder/store/internal/body"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/read"
	"github.com/larder-dev/larder/store/internal/state"
)

// ChangelogEntry is one change of the changelog.
type ChangelogEntry struct {
	// Type is Upsert, or Delete of the object with that UID.
	Type entry.OpType
	Key  string
	// Object is the stored object, or for Delete its last known state, which is nil if it cannot be decoded.
	Object          runtime.Object
	UID             string
	ResourceVersion string
	// Seq is the number of the change in the order of all changes of the collection.
	Seq uint64
	// Created is the number of the change that first stored the object; 0 for Delete. An object that a damaged file had
	// lost counts as created when it is stored again.
	Created uint64
}

// ChangelogPage is a run of changes in order.
type ChangelogPage struct {
	Changes []ChangelogEntry
	// End is the offset to read after next; 0 in a page of objects.
	End uint64
	// More says that further changes are in the file.
	More bool
	// Unreadable holds the keys of stored objects that this program cannot decode. They have no entry until they change.
	Unreadable []string
}

// Read returns the page of changes at a position, in order, and the position behind them: for a live object only the
// last change. If at is Replaying they are the objects that have not changed after at.Seq; More is true then. Dropped
// tombstones are missing; a handler that had not acknowledged them has been made to begin anew.
func (c *Cursor) Read(ctx context.Context, at Position) (p ChangelogPage, next Position, err error) {
	next = at
	p, err = readChanges(ctx, &c.c.read, func(b *bolt.Bucket, p *changesPage) error {
		if !at.Replaying {
			return p.readAfter(b, at.Seq, !c.keysOnly)
		}
		p.More = true
		next.After, next.Replaying, err = p.readObjects(b, at.After, at.Seq, !c.keysOnly)
		return err
	})
	if !at.Replaying {
		next.Seq = p.End
	}
	return p, next, err
}

// Next returns a page with the oldest change of a key among those numbered from to upTo, with its Object. Without one
// the page is empty and its End 0.
func (c *Cursor) Next(ctx context.Context, key string, from, upTo uint64) (ChangelogPage, error) {
	return readChanges(ctx, &c.c.read, func(b *bolt.Bucket, p *changesPage) error {
		log, err := changelog.Open(b, p.r.Name, p.state.Log)
		if err != nil {
			return err
		}
		change, found, err := log.Oldest(key, from, upTo)
		if err != nil || !found {
			return err
		}
		p.End = change.Seq
		return p.add(b, change, true)
	})
}

// changesPage is a page of changes that is being read in a transaction.
type changesPage struct {
	ChangelogPage
	r     *read.Reader
	state state.State
	found []rawChange
	size  int // bytes of the payloads in found
}

// rawChange is a change that has been copied out of its transaction and is not decoded.
type rawChange struct {
	changelog.Change
	whole bool      // whether the change gets its Object
	body  body.Body // not set unless whole
}

// readChanges calls fn in a transaction to read a page, and decodes it when the transaction has ended.
func readChanges(
	ctx context.Context, r *read.Reader, fn func(b *bolt.Bucket, p *changesPage) error,
) (ChangelogPage, error) {
	p := &changesPage{r: r}
	err := r.View(ctx, func(b *bolt.Bucket) (err error) {
		if p.state, err = state.Get(b, r.Name); err != nil {
			return err
		}
		return fn(b, p)
	})
	if err == nil {
		err = p.decode()
	}
	if err != nil {
		return ChangelogPage{}, err
	}
	return p.ChangelogPage, nil
}

// readAfter reads the changes after an offset, up to a page.
func (p *changesPage) readAfter(b *bolt.Bucket, after uint64, whole bool) error {
	log, err := changelog.Open(b, p.r.Name, p.state.Log)
	if err != nil {
		return err
	}
	p.More, err = log.Read(after, func(c changelog.Change) (more bool, err error) {
		err = p.add(b, c, whole)
		return len(p.found) < read.PageObjects && p.size <= read.PageBytes, err
	})
	if p.End = p.state.Log.Last(); p.More {
		p.End = p.found[len(p.found)-1].Seq
	}
	return err
}

// readObjects reads the objects behind a key that have not changed after upTo, up to a page. It returns the last key,
// and whether more objects follow; "" at the end.
func (p *changesPage) readObjects(
	b *bolt.Bucket, after string, upTo uint64, whole bool,
) (end string, more bool, err error) {
	objects, err := p.r.Objects(b)
	if err != nil {
		return "", false, err
	}
	seen, keys := 0, boltfile.ScanAfter(objects, after)
	for k, data := keys.Next(); k != nil; k, data = keys.Next() {
		if seen++; seen > read.PageObjects || p.size > read.PageBytes {
			return end, true, nil
		}
		end = string(k)
		change, err := changelog.Live(p.r.Name, end, data)
		if err == nil && change.Seq <= upTo {
			err = p.add(b, change, whole)
		}
		if err != nil {
			return "", false, err
		}
	}
	return "", false, keys.Err
}

func (p *changesPage) add(b *bolt.Bucket, c changelog.Change, whole bool) (err error) {
	raw := rawChange{Change: c, whole: whole}
	if whole {
		raw.body, err = changeBody(p.r, b, c)
	}
	raw.Head, raw.Payload = nil, nil // memory of the transaction
	p.found, p.size = append(p.found, raw), p.size+raw.body.Size
	return err
}

// changeBody returns a copy of the body of a change. It has no encoding if a newer program has written the record.
func changeBody(r *read.Reader, b *bolt.Bucket, c changelog.Change) (body.Body, error) {
	if c.Gone {
		payload, err := r.Coder.Payload(format.BucketTombstones, c.Place, c.Header, c.Payload)
		return body.Body{Encoding: c.Encoding, Payload: slices.Clone(payload), Size: len(payload)}, err
	}
	if c.SealedBy == 0 {
		c.Payload = slices.Clone(c.Payload)
	}
	opened, err := r.Coder.Open(b, c.Key, c.Header, c.Payload)
	if errors.Is(err, entry.ErrIncompatible) {
		opened.Encoding, err = "", nil
	}
	return opened, err
}

// decode decodes what was found. It calls the codec, so no transaction is open.
func (p *changesPage) decode() error {
	for _, raw := range p.found {
		e := ChangelogEntry{Type: entry.Upsert, Key: raw.Key, UID: raw.UID, ResourceVersion: raw.RV, Seq: raw.Seq,
			Created: raw.FirstSeq()}
		if raw.Gone {
			e.Type, e.Created = entry.Delete, 0
		}
		var err error
		switch {
		case !raw.whole:
		case raw.body.Encoding == "":
			err = entry.ErrIncompatible
		default:
			err = guest.Try("the codec", func() (err error) {
				e.Object, err = p.r.Coder.Decode(raw.Key, raw.body)
				return err
			})
		}
		switch {
		case isDamaged(err):
			return err
		case err != nil && !raw.Gone:
			p.Unreadable = append(p.Unreadable, raw.Key)
			continue
		}
		p.Changes = append(p.Changes, e)
	}
	return nil
}
