package engine

import (
	"context"
	"errors"
	"strconv"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/history"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/crypt"
)

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
