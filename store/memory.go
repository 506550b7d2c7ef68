package store

// Memory is a collection that is kept in memory only. It implements Interface.
type Memory struct{ Interface }

// NewMemory returns an empty collection.
func NewMemory(id Identity, o CollectionOptions) (*Memory, error) { return nil, nil }
