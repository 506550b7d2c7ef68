package store

import (
	"context"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/internal/hook"
)

// Gate is what a test does to the commits of a store.
type Gate = hook.Gate

// GateCommits puts a gate before every commit of s.
func GateCommits(s *Store) *Gate {
	g := &Gate{}
	s.hooks.commit = func(tx *bolt.Tx) error { return g.Commit(tx.Commit) }
	return g
}

// SetPendingLimit makes those who write wait once so many bytes are pending.
func SetPendingLimit(s *Store, n int) { s.commits.limit = n }

// TakeWriter keeps everybody else from writing until release is called.
func TakeWriter(s *Store) (release func(), err error) {
	return s.takeWriter(context.Background(), "a test")
}
