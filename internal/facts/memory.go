package facts

import (
	"context"
	"maps"
	"slices"
)

// Memory is a Store that holds the documents, by name, in memory. Create it with make.
type Memory map[string][]byte

var _ Store = Memory{}

// Documents implements Documents: it returns the names, sorted.
func (m Memory) Documents(context.Context) ([]string, error) { return slices.Sorted(maps.Keys(m)), nil }

// Document implements Documents.
func (m Memory) Document(_ context.Context, name string) ([]byte, error) { return m[name], nil }

// PutDocument implements Store.
func (m Memory) PutDocument(_ context.Context, name string, data []byte) error {
	m[name] = data
	return nil
}

// DeleteDocument implements Store.
func (m Memory) DeleteDocument(_ context.Context, name string) error {
	delete(m, name)
	return nil
}
