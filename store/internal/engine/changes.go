package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/history"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/crypt"
	"github.com/larder-dev/larder/store/internal/format"
)

// ChangesAt returns the page of changes at a position, and the position after the page; see store.Cursor.Read. If whole
// is false, the changes have no Object.
func (r *Reader) ChangesAt(
	ctx context.Context, at consumer.Position, whole bool,
) (p consumer.Page, next consumer.Position, err error) {
	next = at
	p, err = r.changes(ctx, func(b *bolt.Bucket, p *changesPage) error {
		if !at.Replaying {
			return p.readAfter(b, at.Seq, whole)
		}
		p.More = true
		next.After, next.Replaying, err = p.readObjects(b, at.After, at.Seq, whole)
		return err
	})
	if !at.Replaying {
		next.Seq = p.End
	}
	return p, next, err
}

// ChangesSince returns the page of changes after an offset, which must be among those kept for readers. If whole is
// false, the changes have no Object.
func (r *Reader) ChangesSince(ctx context.Context, after uint64, whole bool) (consumer.Page, error) {
	return r.changes(ctx, func(b *bolt.Bucket, p *changesPage) error {
		switch k := keptBy(p.state.Log); {
		case k.For == 0:
			return consumer.ErrNotKept
		case after < k.Oldest || after > k.Last:
			return &consumer.SinceError{Since: after, Oldest: k.Oldest, Last: k.Last}
		}
		if err := p.readAfter(b, after, whole); err != nil {
			return err
		}
		return p.date(b)
	})
}

func (p *changesPage) date(b *bolt.Bucket) error {
	log, err := changelog.Open(b, p.r.Name, p.state.Log)
	if err != nil {
		return err
	}
	for i := range p.found {
		p.found[i].at = log.At(p.found[i].Seq)
	}
	return nil
}

// OffsetAt returns the offset before the first change written at a time or later, and the time from which on the
// changes after the offset are complete. If newest is not 0, at most this many changes are after the offset.
func (r *Reader) OffsetAt(ctx context.Context, at time.Time, newest int) (after uint64, from time.Time, err error) {
	err = r.View(ctx, func(b *bolt.Bucket) error {
		st, err := GetState(b, r.Name)
		if err != nil {
			return err
		}
		if keptBy(st.Log).For == 0 {
			return consumer.ErrNotKept
		}
		log, err := changelog.Open(b, r.Name, st.Log)
		if err != nil {
			return err
		}
		times, err := log.Times()
		after, from = times.Offset(at, changelog.Span{Last: st.Log.Last(), Oldest: st.Log.Oldest(), Now: time.Now()})
		if newest > 0 {
			after = max(after, log.Newest(newest))
		}
		return err
	})
	return after, from, err
}

// OldestChange returns a page with the oldest change of a key among the numbers from to upTo, with its Object. Without
// such a change, the page is empty and its End is 0.
func (r *Reader) OldestChange(ctx context.Context, key string, from, upTo uint64) (consumer.Page, error) {
	return r.changes(ctx, func(b *bolt.Bucket, p *changesPage) error {
		log, err := changelog.Open(b, r.Name, p.state.Log)
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

// Cursors returns the cursors, sorted by name.
func (r *Reader) Cursors(ctx context.Context) (infos []consumer.Info, err error) {
	err = r.View(ctx, func(b *bolt.Bucket) error {
		st, err := GetState(b, r.Name)
		if err != nil {
			return err
		}
		all, err := changelog.ReadCursors(b, r.Name)
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			at := all[name]
			infos = append(infos, consumer.Info{Name: name, Position: at, Behind: st.Log.Last() - at.Seq})
		}
		return nil
	})
	return infos, err
}

// Kept returns the range of changes that are kept for readers.
func (r *Reader) Kept(ctx context.Context) (k consumer.Kept, err error) {
	err = r.View(ctx, func(b *bolt.Bucket) error {
		st, err := GetState(b, r.Name)
		if err == nil {
			k = keptBy(st.Log)
		}
		return err
	})
	return k, err
}

func keptBy(log changelog.State) consumer.Kept {
	k := consumer.Kept{For: log.Retain, Last: log.Last()}
	if k.For > 0 && log.Kept() {
		k.Oldest = log.Oldest()
	}
	return k
}

type changesPage struct {
	consumer.Page
	r     *Reader
	state CollectionState
	found []rawChange
	size  int // size is the number of payload bytes in found.
}

// rawChange is an undecoded change that has been copied out of its transaction.
type rawChange struct {
	changelog.Change
	at    time.Time  // at is the time of the write; zero if unknown.
	whole bool       // whole is true if Change.Object must be set.
	body  crypt.Body // body is the payload, if whole is true.
}

// changes calls fn in a transaction to read a page, and decodes the page after the transaction.
func (r *Reader) changes(
	ctx context.Context, fn func(b *bolt.Bucket, p *changesPage) error,
) (consumer.Page, error) {
	p := &changesPage{r: r}
	err := r.View(ctx, func(b *bolt.Bucket) (err error) {
		if p.state, err = GetState(b, r.Name); err != nil {
			return err
		}
		return fn(b, p)
	})
	if err == nil {
		err = p.decode()
	}
	if err != nil {
		return consumer.Page{}, err
	}
	return p.Page, nil
}

func (p *changesPage) readAfter(b *bolt.Bucket, after uint64, whole bool) error {
	log, err := changelog.Open(b, p.r.Name, p.state.Log)
	if err != nil {
		return err
	}
	p.More, err = log.Read(after, func(c changelog.Change) (more bool, err error) {
		err = p.add(b, c, whole)
		return len(p.found) < PageObjects && p.size <= PageBytes, err
	})
	if p.End = p.state.Log.Last(); p.More {
		p.End = p.found[len(p.found)-1].Seq
	}
	return err
}

// readObjects reads a page of the objects after a key that have not changed after upTo. It returns the last key, or ""
// at the end, and whether more objects follow.
func (p *changesPage) readObjects(
	b *bolt.Bucket, after string, upTo uint64, whole bool,
) (end string, more bool, err error) {
	objects, err := p.r.Objects(b)
	if err != nil {
		return "", false, err
	}
	seen, keys := 0, boltfile.ScanAfter(objects, after)
	for k, data := keys.Next(); k != nil; k, data = keys.Next() {
		if seen++; seen > PageObjects || p.size > PageBytes {
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
	raw.Head, raw.Payload = nil, nil // Head and Payload are memory of the transaction, which ends.
	p.found, p.size = append(p.found, raw), p.size+raw.body.Size
	return err
}

// changeBody returns a copy of the payload of a change. Encoding is "" if a newer program wrote the record.
func changeBody(r *Reader, b *bolt.Bucket, c changelog.Change) (crypt.Body, error) {
	if c.Gone {
		payload, err := r.Coder.Payload(format.BucketTombstones, c.RecordKey, c.Header, c.Payload)
		return crypt.Body{Encoding: c.Encoding, Payload: slices.Clone(payload), Size: len(payload)}, err
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

// decode decodes the found changes. It calls the codec, so no transaction is open.
func (p *changesPage) decode() error {
	for _, raw := range p.found {
		e := consumer.Change{Type: entry.Upsert, Key: raw.Key, UID: raw.UID, ResourceVersion: raw.RV, Seq: raw.Seq,
			Created: raw.FirstSeq(), Time: raw.at}
		if raw.Gone {
			e.Type, e.Created = entry.Delete, 0
		}
		var err error
		switch {
		case !raw.whole:
		case raw.body.Encoding == "":
			err = entry.ErrIncompatible
		default:
			err = base.Try("the codec", func() (err error) {
				e.Object, err = p.r.Coder.Decode(raw.Key, raw.body)
				return err
			})
		}
		switch {
		case errors.Is(err, entry.ErrDamaged):
			return err
		case err != nil && !raw.Gone:
			p.Unreadable = append(p.Unreadable, raw.Key)
			continue
		}
		p.Changes = append(p.Changes, e)
	}
	return nil
}

const recalledChanges = 20_000

// Recall returns the latest changes in the file's changelog for an in-memory history of changes, at most
// recalledChanges, about bound bytes, and none from before the last list. floor is the oldest resourceVersion from
// which the changes continue; 0 if unknown.
func (r *Reader) Recall(ctx context.Context, bound int) (changes []*history.Event, floor uint64, err error) {
	err = r.View(ctx, func(b *bolt.Bucket) error {
		st, err := GetState(b, r.Name)
		if err != nil {
			return err
		}
		floor, _ = strconv.ParseUint(st.Log.ListedRV, 10, 64)
		log, err := changelog.Open(b, r.Name, st.Log)
		if errors.Is(err, consumer.ErrNone) || err == nil && floor == 0 {
			if at, _ := strconv.ParseUint(st.ResourceVersion, 10, 64); floor > 0 {
				floor = max(floor, at)
			}
			return nil
		}
		if err != nil {
			return err
		}
		from := max(st.Log.ListedSeq, st.Log.Oldest())
		if last := st.Log.Last(); last > recalledChanges {
			from = max(from, last-recalledChanges)
		}
		// Unless floor is the resourceVersion at from, the first change is dropped, and floor becomes its resourceVersion.
		known := from == st.Log.ListedSeq
		size := 0
		_, err = log.Read(from, func(c changelog.Change) (bool, error) {
			opened, err := changeBody(r, b, c)
			if err == nil && opened.Encoding != "" {
				opened, err = r.Coder.Plain(c.RecordKey, opened, nil)
			}
			if err != nil {
				return false, err
			}
			e := recalled(c, opened)
			was := c.FirstSeq() <= from // The object existed before the first change that Recall reads.
			if !was {
				e.Since, _ = strconv.ParseUint(c.Since, 10, 64)
			}
			if !known || !was && e.Since == 0 { // Without the state before c, it is unknown whether the object existed.
				changes, size, floor, known = nil, 0, max(floor, e.RV), true
				return true, nil
			}
			changes, size = append(changes, e), size+e.Size()
			for size > bound && len(changes) > 1 {
				floor = max(floor, changes[0].RV)
				size -= changes[0].Size()
				changes = changes[1:]
			}
			return true, nil
		})
		if !known {
			at, _ := strconv.ParseUint(st.ResourceVersion, 10, 64)
			floor = max(floor, at)
		}
		return err
	})
	return changes, floor, err
}

func recalled(c changelog.Change, b crypt.Body) *history.Event {
	e := &history.Event{Key: c.Key, Deleted: c.Gone, Recalled: true}
	e.RV, _ = strconv.ParseUint(c.RV, 10, 64)
	if b.Encoding != "" {
		e.New = &entry.Entry{Key: c.Key, UID: c.UID, ResourceVersion: c.RV, Encoding: b.Encoding, Payload: b.Payload}
	}
	return e
}
