package serving

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/serve/page"
)

func (p *Port) changed(s Served) func(context.Context, page.ChangesQuery) (page.Record, error) {
	return func(ctx context.Context, asked page.ChangesQuery) (page.Record, error) {
		status, err := s.Status(ctx)
		if err != nil {
			return page.Record{}, err
		}
		shown := pageStatus(time.Now(), status, p.o.Secrets)
		var of []source.Collection
		for i, c := range status.Collections {
			kind := schema.GroupResource{Group: c.Group, Resource: c.Resource}.String()
			if shown.Collections[i].Hidden == "" && c.Changes != nil && (asked.Kind == "" || asked.Kind == kind) {
				of = append(of, c)
			}
		}
		record := page.Record{Since: asked.Since.UTC(), Counts: map[string]int{}}
		q := source.LogQuery{Since: asked.Since, Newest: asked.Limit}
		if asked.Namespace != "" || asked.Name != "" {
			q.Matches = func(key string) bool {
				namespace, name := input.SplitKey(key)
				return (asked.Namespace == "" || asked.Namespace == namespace) && strings.Contains(name, asked.Name)
			}
		}
		all, err := source.LogAll(ctx, s.Log, of, q, func(_ source.Collection, from time.Time) {
			if from.After(record.Since) {
				record.Since = from.UTC()
			}
		})
		if err != nil {
			return page.Record{}, err
		}
		for _, c := range all {
			record.Counts[schema.GroupResource{Group: c.Collection.Group, Resource: c.Collection.Resource}.String()]++
		}
		for _, c := range slices.Backward(all[max(0, len(all)-asked.Limit):]) {
			one := page.Change{Time: c.Time.UTC(), Kind: kinds[c.Type], Group: c.Collection.Group,
				Version: c.Collection.Version, Resource: c.Collection.Resource}
			one.Namespace, one.Name = input.SplitKey(c.Key)
			record.Changes = append(record.Changes, one)
		}
		return record, nil
	}
}

var kinds = map[source.EventType]string{
	source.Added: page.Added, source.Modified: page.Changed, source.Deleted: page.Removed,
}

func logOf(ctx context.Context, f *source.File) (source.Logger, error) {
	status, err := f.Status(ctx)
	if err != nil || !slices.ContainsFunc(status.Collections, func(c source.Collection) bool { return c.Changes != nil }) {
		return nil, err
	}
	return f, nil
}
