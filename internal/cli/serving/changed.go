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
func (p *Port) changed(s Served) func(context.Context, time.Time, int) ([]page.Change, error) {
	return func(ctx context.Context, since time.Time, limit int) ([]page.Change, error) {
		status, err := s.Status(ctx)
		if err != nil {
			return nil, err
		}
		shown := pageStatus(time.Now(), status, p.o.Secrets)
		var of []source.Collection
		for i, c := range status.Collections {
			if shown.Collections[i].Hidden == "" && c.Changes != nil {
				of = append(of, c)
			}
		}
		all, err := source.LogAll(ctx, s.Log, of, since, nil, func(source.Collection, time.Time) {})
		if err != nil {
			return nil, err
		}
		slices.Reverse(all)
		all = all[:min(limit, len(all))]
		changes := make([]page.Change, len(all))
		for i, c := range all {
			one := page.Change{Time: c.Time, Kind: kinds[c.Type], Group: c.Collection.Group, Version: c.Collection.Version,
				Resource: c.Collection.Resource}
			one.Namespace, one.Name = input.SplitKey(c.Key)
			changes[i] = one
		}
		return changes, nil
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
