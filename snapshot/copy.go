package snapshot

import (
	"context"

	"github.com/larder-dev/larder/entry"
)

// Copied is what Copy has written.
type Copied struct {
	Collections int
	Objects     int
	// Bytes is the sum of the payloads.
	Bytes int64
	// Skipped is how many objects SelectOptions.SkipUnknown has left out.
	Skipped int
}

// Copy writes all collections of src, without what o leaves out. The Writer stays open. Use SelectOptions.Describe for
// the Header. It reads src page by page: of a store that is written meanwhile (StoreSource) that is no state of one
// moment, and SaveStore is what copies it first.
func (w *Writer) Copy(ctx context.Context, src Source, o SelectOptions) (Copied, error) {
	var n Copied
	told := o.Skipped
	o.Skipped = func(id entry.Identity, key string) {
		n.Skipped++
		if told != nil {
			told(id, key)
		}
	}
	src, err := Select(src, o)
	if err != nil {
		return n, err
	}
	all, err := src.Collections(ctx)
	if err != nil {
		return n, err
	}
	for _, c := range all {
		if err := w.Begin(c); err != nil {
			return n, err
		}
		skipped := n.Skipped
		if err := src.Records(ctx, c.Identity, "", w.Add); err != nil {
			return n, err
		}
		n.Collections++
		n.Objects += w.current.Objects
		n.Bytes += w.current.Bytes
		if err := w.EndWith(c.State().without(n.Skipped - skipped)); err != nil {
			return n, err
		}
	}
	return n, nil
}
