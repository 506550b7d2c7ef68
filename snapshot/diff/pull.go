package diff

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// pull returns an iterator over records, which are valid until the following call of next. The caller must call stop.
func pull(
	ctx context.Context, src snapshot.Source, id entry.Identity,
) (next func() (r entry.Entry, ok bool, err error), stop func()) {
	seq := func(yield func(entry.Entry, error) bool) {
		last, stopped := "", false
		err := src.Records(ctx, id, func(r entry.Entry) error {
			if r.Key <= last {
				return fmt.Errorf("%s: key %q after %q: %w", id, r.Key, last, snapshot.ErrOrder)
			}
			last = r.Key
			if stopped = !yield(r, nil); stopped {
				return errStop
			}
			return nil
		})
		if err != nil && !stopped {
			yield(entry.Entry{}, err)
		}
	}
	step, stop := iter.Pull2(iter.Seq2[entry.Entry, error](seq))
	return func() (entry.Entry, bool, error) {
		r, err, ok := step()
		return r, ok && err == nil, err
	}, stop
}

var errStop = errors.New("stop")
