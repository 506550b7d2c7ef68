package source

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// Entries calls fn like Source.Entries, for a collection of unstructured objects or metadata that is kept in memory
// only.
func Entries(ctx context.Context, r store.Reader, q Query, fn func(entry.Entry) error) error {
	parsed, err := q.parse()
	if err != nil {
		return err
	}
	return r.Each(ctx, parsed, func(key string, obj runtime.Object) error {
		if !q.reaches(key) {
			return nil
		}
		if q.KeysOnly {
			return fn(entry.Entry{Key: key})
		}
		e, err := encode(key, obj)
		if err != nil {
			return err
		}
		return fn(e)
	})
}
