package engine

import (
	"fmt"
	"slices"
)

// Sealing describes how a sealed collection stores terms. Records from before the sealing have unsealed terms.
type Sealing interface {
	// Tokens returns the stored forms of the value in the index: a token for each data key.
	Tokens(index, value string) []string
	// Sealed reports whether the record with this key is sealed, so that its terms are tokens.
	Sealed(key string) bool
	Value(index, token string) (string, error)
}

// sealedKeys calls fn with each key that has value in the file's index of a sealed collection. It looks up the token of
// value under each data key, and also value itself, for records from before the sealing.
func (v IndexView) sealedKeys(value string, fn func(key string) error) error {
	var keys []string
	for _, token := range v.src.Sealing.Tokens(v.name, value) {
		err := v.storedKeys(token, func(key string) error {
			keys = append(keys, key)
			return nil
		})
		if err != nil {
			return err
		}
	}
	err := v.storedKeys(value, func(key string) error {
		if !v.src.Sealing.Sealed(key) { // A sealed record has tokens, and value merely equals a token.
			keys = append(keys, key)
		}
		return nil
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

// plain returns the value of an entry for key. stored is the stored form of the value.
func (v IndexView) plain(stored, key string) (string, error) {
	if v.src.Sealing == nil || !v.src.Sealing.Sealed(key) {
		return stored, nil
	}
	value, err := v.src.Sealing.Value(v.name, stored)
	if err != nil {
		return "", fmt.Errorf("collection %s: %w", v.collection, err)
	}
	return value, nil
}
