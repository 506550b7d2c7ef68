package store

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// checkDataKeys verifies the record of the data keys.
func (s *Store) checkDataKeys(ctx context.Context, r *Report, p *pace) error {
	return s.viewChecked(ctx, r, p, func(tx *bolt.Tx) error {
		if _, err := getKeys(tx); isDamaged(err) {
			r.Problems = append(r.Problems, fmt.Sprintf("%v: what is sealed cannot be opened any more", err))
		}
		return nil
	})
}
