package larder

import (
	"context"

	"github.com/larder-dev/larder/internal/source"
)

// Collection returns the status of the first collection of the larder sync process that writes this store. It returns
// false while the process does not answer.
func Collection(ctx context.Context, store string) (c source.Collection, ok bool) {
	client, _, err := source.Dial(ctx, store)
	if err != nil {
		return c, false
	}
	defer client.Close() //nolint:errcheck // nothing was written
	status, err := client.Status(ctx)
	if err != nil || len(status.Collections) == 0 || status.Collections[0].Live == nil {
		return c, false
	}
	return status.Collections[0], true
}

// Synced returns the number of objects in the first collection of the process that writes this store, and whether the
// collection has synced.
func Synced(ctx context.Context, store string) (objects int, synced bool) {
	c, ok := Collection(ctx, store)
	return c.Objects, ok && c.Live.Synced
}
