package read

import (
	"context"
	"errors"
	"strconv"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/history"
	"github.com/larder-dev/larder/store/internal/body"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/state"
)

// recalledChanges is how many of the latest changes are looked at.
const recalledChanges = 20_000

// Recall returns the latest changes in the file's changelog, up to about bound bytes, for a history: those after the
// last list, and the oldest resourceVersion from which they lead on; 0 if that is not known.
func (r *Reader) Recall(ctx context.Context, bound int) (changes []*history.Event, floor uint64, err error) {
	err = r.View(ctx, func(b *bolt.Bucket) error {
		st, err := state.Get(b, r.Name)
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
		known := from == st.Log.ListedSeq // else a change that is let go tells
		size := 0
		_, err = log.Read(from, func(c changelog.Change) (bool, error) {
			opened, err := changeBody(r, b, c)
			if err == nil && opened.Encoding != "" {
				opened, err = r.Coder.Plain(c.Place, opened, nil)
			}
			if err != nil {
				return false, err
			}
			e := recalled(c, opened)
			was := c.FirstSeq() <= from // before all changes that are kept
			if !was {
				e.Since, _ = strconv.ParseUint(c.Since, 10, 64)
			}
			if !known || !was && e.Since == 0 { // who knows the state before c may know the object, or not
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

// recalled returns a change of the changelog as a history has it.
func recalled(c changelog.Change, b body.Body) *history.Event {
	e := &history.Event{Key: c.Key, Deleted: c.Gone, Recalled: true}
	e.RV, _ = strconv.ParseUint(c.RV, 10, 64)
	if b.Encoding != "" {
		e.New = &entry.Entry{Key: c.Key, UID: c.UID, ResourceVersion: c.RV, Encoding: b.Encoding, Payload: b.Payload}
	}
	return e
}
