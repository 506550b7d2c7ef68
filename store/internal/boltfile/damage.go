package boltfile

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/larder-dev/larder/store/internal/format"
)

// damage holds the keys of the damaged records that were found, by collection.
type damage struct {
	mu    sync.Mutex                     // mu guards the other fields
	keys  map[string]map[string]struct{} // keys has at most maxDamaged keys of each collection
	found chan struct{}                  // found is closed and replaced when a damaged record is read
}

// maxDamaged bounds the damaged records that a commit verifies again.
const maxDamaged = 1000

// note notes the damaged record that err reports. It returns false if err reports none.
func (d *damage) note(err error) bool {
	one := (*format.DamagedRecord)(nil)
	if !errors.As(err, &one) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	keys := d.keys[one.Collection]
	if keys == nil {
		keys = map[string]struct{}{}
		d.keys[one.Collection] = keys
	}
	if len(keys) < maxDamaged {
		keys[one.Key] = struct{}{}
	}
	close(d.found)
	d.found = make(chan struct{})
	return true
}

// DamageFound returns a channel that is closed when a damaged record is next read.
func (d *damage) DamageFound() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.found
}

// Damaged returns the keys of the damaged records in a collection, which are not repaired yet.
func (d *damage) Damaged(collection string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.keys[collection]))
}

// Repaired removes keys from Damaged.
func (d *damage) Repaired(collection string, keys []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range keys {
		delete(d.keys[collection], key)
	}
}
