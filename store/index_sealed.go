package store

import (
	"fmt"
	"slices"

	"github.com/larder-dev/larder/store/internal/format"
)

// sealedKeys is fileKeys for a sealed collection. It looks up the token of value under each data key, and value itself
// for records that were stored before the collection was sealed.
func (v indexView) sealedKeys(value string, fn func(key string) error) error {
	var keys []string
	add := func(key string) error {
		keys = append(keys, key)
		return nil
	}
	for _, k := range v.r.store.keys.held().byID {
		if err := v.storedKeys(k.Token(v.r.name, v.name, value), add); err != nil {
			return err
		}
	}
	err := v.storedKeys(value, func(key string) error {
		if v.isSealed(key) { // value is only equal to a token of this record
			return nil
		}
		return add(key)
	})
	if err != nil {
		return err
	}
	slices.Sort(keys)
	for _, key := range keys {
		if err := fn(key); err != nil {
			return err
		}
	}
	return nil
}

// isSealed reports whether the record of that key is sealed, so that its terms are tokens.
func (v indexView) isSealed(key string) bool {
	data := v.objects.Get([]byte(key))
	return len(data) > 0 && data[0] == format.SealedVersion
}

// plainValue returns the plain value of an index entry for key. stored is the value in the entry.
func (v indexView) plainValue(stored, key string) (string, error) {
	if !v.isSealed(key) {
		return stored, nil
	}
	value, err := v.r.valueOf(v.name, stored)
	if err != nil {
		return "", fmt.Errorf("collection %s: %w", v.r.name, err)
	}
	return value, nil
}
