package crypt

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/seal"
)

// unwrap decrypts a data key with the provider. It fails with seal.ErrWrongKey if the provider lacks the wrapping key.
func (r *Ring) unwrap(ctx context.Context, stored format.DataKey) (*dataKey, error) {
	raw, err := r.provider.Unwrap(ctx, stored.Key, stored.Wrapped)
	var one *dataKey
	if err == nil {
		one, err = newDataKey(stored.ID, raw)
	}
	if err == nil && subtle.ConstantTimeCompare(one.check, stored.Check) != 1 {
		err = fmt.Errorf("%w: the provider has returned another key than was wrapped", seal.ErrWrongKey)
	}
	switch {
	case errors.Is(err, seal.ErrWrongKey):
		return nil,
			fmt.Errorf(
				"data key %016x, wrapped under key %s: %w; nothing was changed: the file can be opened only with that key, "+
					"which may be behind the current one; if it is lost, have everything listed anew into another file",
				stored.ID, base.PrintableKey(stored.Key), err)
	case err != nil:
		return nil, fmt.Errorf("data key %016x, wrapped under key %s, could not be unwrapped, and nothing was changed: %w",
			stored.ID, base.PrintableKey(stored.Key), err)
	}
	one.wrapper, one.wrapped, one.created = stored.Key, stored.Wrapped, time.Unix(stored.Created, 0)
	return one, nil
}

// currentOf returns the newest data key in all that the provider's current key wraps, or a new data key.
func (r *Ring) currentOf(ctx context.Context, all []*dataKey) (*dataKey, error) {
	id, err := r.provider.CurrentKey(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for the current key: %w", err)
	}
	for _, one := range slices.Backward(all) {
		if one.wrapper == id {
			return one, nil
		}
	}
	return r.make(ctx)
}

func (r *Ring) make(ctx context.Context) (*dataKey, error) {
	raw := make([]byte, seal.KeySize)
	_, _ = rand.Read(raw) // rand.Read never fails
	wrapper, wrapped, err := r.provider.Wrap(ctx, raw)
	if err != nil {
		clear(raw)
		return nil, fmt.Errorf("wrap a new data key: %w", err)
	}
	one, err := newDataKey(format.RandomID(), raw)
	if err != nil {
		return nil, err
	}
	one.wrapper, one.wrapped, one.created = wrapper, wrapped, time.Now().Truncate(time.Second)
	return one, nil
}
