package facts

import (
	"context"
	"maps"
	"slices"
)

// Memory is a Store that holds the contents of documents, by name, in memory. Create it with make.
type Memory map[string][]byte

var _ Store = Memory{}

func (m Memory) Documents(context.Context) ([]string, error) { return slices.Sorted(maps.Keys(m)), nil }

func (m Memory) Document(_ context.Context, name string) ([]byte, error) { return m[name], nil }

func (m Memory) PutDocument(_ context.Context, name string, data []byte) error {
	m[name] = data
	return nil
}

func (m Memory) DeleteDocument(_ context.Context, name string) error {
	delete(m, name)
	return nil
}
