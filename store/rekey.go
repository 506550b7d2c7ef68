package store

import (
	"context"
	"errors"
	"fmt"
)

// errNoKeys: Rekey was called for a store that was opened without keys.
var errNoKeys = errors.New("the store was opened without keys")

// Rekey rekeys the store at path, which no process may have open, and closes it: see Store.Rekey. Of the options it
// takes Encryption, which must be given, LockTimeout, MaxSize and Logger. As Compact it makes no file and moves none
// aside.
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

// Rekey writes the store anew, as Compact does, and seals everything that is to be sealed with a new data key, wrapped
// under the provider's current key: what was sealed with others, and what was stored in plain text before
// Options.Encryption was set. The new file has no other data key, so the keys that wrapped them are needed no more, and
// none of the plain text (Info.PlainText is false).
//
// It is as safe as Compact is, and open collections go on working as they do then. If a collection holds records of a
// newer program it fails (ErrIncompatible). What a disk or a backup still has of the old file, nobody can take back,
// and damaged files that were moved aside before stay as they are.
func (s *Store) Rekey(ctx context.Context) (Compacted, error) {
	done, err := s.rekey(ctx)
	if err != nil {
		return Compacted{}, fmt.Errorf("rekey %s: %w", s.path, err)
	}
	return done, nil
}

func (s *Store) rekey(ctx context.Context) (Compacted, error) {
	switch {
	case s.keys == nil:
		return Compacted{}, errNoKeys
	case s.ReadOnly():
		return Compacted{}, ErrReadOnly
	}
	key, err := s.keys.make(ctx)
	if err != nil {
		return Compacted{}, err
	}
	done, err := s.compact(ctx, key)
	if err == nil {
		s.logger().V(1).Info("The store has been sealed anew", "key", key.Wrapper)
	}
	return done, err
}
