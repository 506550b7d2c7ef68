package store

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// giveUpLostKeys says what is lost with data keys whose record is damaged, and puts a sound one in its place. Single records that can not be opened are repaired as damage
// is: objects are lost, once, and asked of the server. Nothing else in the file is concerned.
func (s *Store) giveUpLostKeys(ctx context.Context) {
	lost := s.keys.held().lost
	if lost == nil {
		return
	}
	s.logger().Error(lost, "What was sealed in the store can not be opened any more, whatever keys are given, and is fetched anew; what is not sealed is as it was")
	if err := s.update(ctx, s.keys.ensure); err != nil { // the next write of something that is sealed does it
		s.logger().Error(err, "The record of the data keys could not be written anew")
	}
}

// checkDataKeys verifies their record.
func (s *Store) checkDataKeys(ctx context.Context, r *Report) error {
	why, err := s.damagedDataKeys(ctx)
	if why != nil {
		r.Problems = append(r.Problems, fmt.Sprintf("%v: what is sealed can not be opened any more", why))
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

// mendDataKeys writes the record of the keys that this process holds anew, or removes a damaged one, of a store that has failed.
func (s *Store) mendDataKeys(ctx context.Context) error {
	why, err := s.damagedDataKeys(ctx)
	if why == nil || err != nil {
		return err
	}
	err = s.updateFailed(func(tx *bolt.Tx) error {
		if s.keys.held().record != nil {
			return s.keys.ensure(tx)
		}
		return tx.Bucket(bucketLarder).Delete(keyKeys)
	})
	if err == nil {
		s.logger().Error(why, "The record of the data keys has been repaired", "lost", s.keys.held().record == nil)
	}
	return err
}
