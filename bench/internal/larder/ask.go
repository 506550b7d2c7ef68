package larder

import (
	"context"

	"github.com/larder-dev/larder/internal/source"
)

// Collection asks the sync that holds a store for its first collection; false while there is no answer.
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

// Synced is how many objects the first collection has, and whether it has synced.
func Synced(ctx context.Context, store string) (objects int, synced bool) {
	c, ok := Collection(ctx, store)
	return c.Objects, ok && c.Live.Synced
}
