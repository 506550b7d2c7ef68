package snapshot

import (
	"context"
	"fmt"
	"iter"

	"github.com/larder-dev/larder/store"
)

// pull reads the records of a collection one at a time. What next returns is valid until its next call. stop must be called in the end.
func pull(ctx context.Context, src Source, id store.Identity) (next func() (r store.Record, ok bool, err error), stop func()) {
	seq := func(yield func(store.Record, error) bool) {
		last, stopped := "", false
		err := src.Records(ctx, id, "", func(r store.Record) error {
			if r.Key <= last {
				return fmt.Errorf("%s: key %q after %q: %w", id, r.Key, last, ErrOrder)
			}
			last = r.Key
			if stopped = !yield(r, nil); stopped {
				return errStop
			}
			return nil
		})
		if err != nil && !stopped {
			yield(store.Record{}, err)
		}
	}
	step, stop := iter.Pull2(iter.Seq2[store.Record, error](seq))
	return func() (store.Record, bool, error) {
		r, err, ok := step()
		return r, ok && err == nil, err
	}, stop
}
