package store

import (
	"fmt"
	"slices"

	"github.com/larder-dev/larder/store/internal/format"
)

// sealedKeys calls fn with each key that the file files under value, in order: by the tokens that the value has with
// each data key, and by the value itself, for records of before the collection was sealed.
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
		if v.isSealed(key) { // and value is a token of it, not what it is filed under
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

// isSealed reports whether the record of that key is, so that its terms are tokens.
func (v indexView) isSealed(key string) bool {
	data := v.objects.Get([]byte(key))
	return len(data) > 0 && data[0] == format.SealedVersion
}

// plainValue returns the value of an entry that files key.
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
