package engine

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// IndexReader answers look-ups in the indexes of a file. An IndexReader is a function that calls fn with the index
// want.Index, in a read transaction, and returns the error of fn. Each method looks up once.
type IndexReader func(ctx context.Context, want Lookup, fn func(IndexView) error) error

func (r IndexReader) IndexKeys(ctx context.Context, index, value string) ([]string, error) {
	keys := []string{}
	err := r(ctx, Lookup{Index: index, Values: []string{value}}, func(v IndexView) error {
		return v.keys(value, func(key string) error {
			keys = append(keys, key)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return keys, nil
}

func (r IndexReader) IndexValues(ctx context.Context, index string) ([]string, error) {
	values := map[string]bool{}
	err := r(ctx, Lookup{Index: index}, func(v IndexView) error {
		return v.values(func(value string) { values[value] = true })
	})
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(values)), nil
}

// ByIndex returns the objects that have one of the values in the index, each object once.
func (r IndexReader) ByIndex(ctx context.Context, index string, values ...string) ([]runtime.Object, error) {
	objs, seen := []runtime.Object{}, map[string]bool{}
	if values == nil {
		values = []string{} // No values: nil in a Lookup would mean every value.
	}
	err := r(ctx, Lookup{Index: index, Values: values}, func(v IndexView) error {
		for _, value := range values {
			err := v.keys(value, func(key string) error {
				if seen[key] {
					return nil
				}
				seen[key] = true
				obj, err := v.src.Object(key)
				objs = append(objs, obj)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return objs, nil
}
