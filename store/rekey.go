package store

import (
	"context"
	"errors"
	"fmt"
)

var errNoKeys = errors.New("the store was opened without keys")

// Rekey opens the store at path, calls Store.Rekey and closes the store. No process may have it open. Rekey uses the
// options Encryption, which is required, LockTimeout, MaxSize and Logger. It moves no damaged file aside.
func Rekey(ctx context.Context, path string, o Options) (Compacted, error) {
	if o.Encryption == nil {
		return Compacted{}, fmt.Errorf("rekey %s: %w", path, errNoKeys)
	}
	s, err := openClosed(ctx, path, o)
	if err != nil {
		return Compacted{}, fmt.Errorf("rekey: %w", err)
	}
	done, err := s.Rekey(ctx)
	return done, errors.Join(err, s.Close())
}

// Rekey writes the store anew, as Compact does, and seals all records of sealed collections with a new data key, which
// is wrapped under the provider's current key. This includes records that were stored in plain text before
// Options.Encryption was set (Info.PlainText). The new file has no other data key, so the provider needs no older keys.
//
// Open collections go on working. Rekey fails with ErrIncompatible if a collection has records of a newer program. It
// does not change copies of the old file, backups, or damaged files that were moved aside before.
func (s *Store) Rekey(ctx context.Context) (Compacted, error) {
	done, err := s.rekey(ctx)
	if err != nil {
		return Compacted{}, fmt.Errorf("rekey %s: %w", s.file.Path, err)
	}
	return done, nil
}

func (s *Store) rekey(ctx context.Context) (Compacted, error) {
	switch {
	case s.keys.Locked():
		return Compacted{}, errNoKeys
	case s.ReadOnly():
		return Compacted{}, ErrReadOnly
	}
	fresh, key, err := s.keys.Renewed(ctx)
	if err != nil {
		return Compacted{}, err
	}
	done, err := s.compact(ctx, fresh)
	if err == nil {
		s.logger().V(1).Info("The store has been sealed anew", "key", key)
	}
	return done, err
}
