package serving

import (
	"context"
	"slices"
	"time"

	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/serve/page"
)

// changed returns page.Options.Changes: what has changed of what is served, as far as changes are kept.
func (p *Port) changed(s Served) func(context.Context, time.Time, int) (page.Record, error) {
	return func(ctx context.Context, since time.Time, limit int) (page.Record, error) {
		status, err := s.Status(ctx)
		if err != nil {
			return page.Record{}, err
		}
		shown := pageStatus(time.Now(), status, p.o.Secrets)
		var of []source.Collection
		for i, c := range status.Collections {
			if shown.Collections[i].Hidden == "" && c.Changes != nil {
				of = append(of, c)
			}
		}
		record := page.Record{Since: since.UTC()}
		q := source.LogQuery{Since: since, Newest: limit}
		all, err := source.LogAll(ctx, s.Log, of, q, func(_ source.Collection, from time.Time) {
			if from.After(record.Since) {
				record.Since = from.UTC()
			}
		})
		if err != nil {
			return page.Record{}, err
		}
		for _, c := range slices.Backward(all[max(0, len(all)-limit):]) {
			one := page.Change{Time: c.Time.UTC(), Kind: kinds[c.Type], Group: c.Collection.Group,
				Version: c.Collection.Version, Resource: c.Collection.Resource}
			one.Namespace, one.Name = input.SplitKey(c.Key)
			record.Changes = append(record.Changes, one)
		}
		return record, nil
	}
}

// kinds are what has become of an object, in the words of the page.
var kinds = map[source.EventType]string{
	source.Added: page.Added, source.Modified: page.Changed, source.Deleted: page.Removed,
}

// logOf returns the file if it keeps changes, and nil if not.
func logOf(ctx context.Context, f *source.File) (source.Logger, error) {
	status, err := f.Status(ctx)
	if err != nil || !slices.ContainsFunc(status.Collections, func(c source.Collection) bool { return c.Changes != nil }) {
		return nil, err
	}
	return f, nil
}
