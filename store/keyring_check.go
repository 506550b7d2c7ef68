package store

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// checkDataKeys verifies the record of the data keys.
func (s *Store) checkDataKeys(ctx context.Context, r *Report) error {
	why, err := s.damagedDataKeys(ctx)
	if why != nil {
		r.Problems = append(r.Problems, fmt.Sprintf("%v: what is sealed cannot be opened any more", why))
	}
	return err
}

// damagedDataKeys returns what is wrong with the record. It is taken apart in the transaction and is no failure of the store.
func (s *Store) damagedDataKeys(ctx context.Context) (why, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		if _, err := getKeys(tx); isDamaged(err) {
			why = err
		}
		return nil
	})
	return why, err
}
