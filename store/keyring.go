package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/printable"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/seal"
)

// keyring holds the data keys of a store. The zero value is locked: it is that of a store without Options.Encryption.
//
// The file has the keys, wrapped, in one record under format.KeyKeys, so every copy of the file has them too. The first
// transaction that seals something with a new current key writes the record.
type keyring struct {
	provider seal.KeyProvider // nil if the keyring is locked
	now      atomic.Pointer[heldKeys]
	// sealedUnder has the ids of the provider's keys that the file needs, if the keyring is locked; set by unlock.
	sealedUnder []string
}

// heldKeys holds the data keys at one moment. It is immutable.
type heldKeys struct {
	byID map[uint64]*seal.DataKey
	// current is the key that new records are sealed with; nil in a store that is open for reading.
	current *seal.DataKey
	// record is the record of the data keys as the file must have it, current included.
	record []byte
}

// fetch sets the provider. The data keys are unwrapped once the file is open. It fails if the provider does not answer.
func (k *keyring) fetch(ctx context.Context, e *seal.Encryption, log logr.Logger) error {
	switch {
	case e == nil:
		return nil
	case e.Keys == nil:
		return errors.New("Options.Encryption.Keys must be set; see ParseKeys")
	}
	k.provider = e.Keys
	if keys, ok := e.Keys.(interface{ ExposedFile() string }); ok && keys.ExposedFile() != "" {
		log.Info("Everybody on this machine can read the keys of the store; give the file mode 0400", "keys",
			keys.ExposedFile())
	}
	if _, err := k.provider.CurrentKey(ctx); err != nil {
		return fmt.Errorf("ask for the current key: %w", err)
	}
	return nil
}

// locked reports whether there are no keys, since the store was opened without Options.Encryption.
func (k *keyring) locked() bool { return k.provider == nil }

// errSealed returns ErrSealed with the ids of the keys that are needed.
func (k *keyring) errSealed() error {
	if len(k.sealedUnder) == 0 {
		return seal.ErrSealed
	}
	ids := make([]string, len(k.sealedUnder))
	for i, id := range k.sealedUnder {
		ids[i] = printable.Key(id)
	}
	return fmt.Errorf("%w: it needs key %s", seal.ErrSealed, strings.Join(ids, ", "))
}

// of returns the data key with that id. It fails with ErrSealed if there are no keys, and else with ErrDamaged.
func (k *keyring) of(id uint64) (*seal.DataKey, error) {
	if k.locked() {
		return nil, k.errSealed()
	}
	if key := k.held().byID[id]; key != nil {
		return key, nil
	}
	return nil, fmt.Errorf("it is sealed with data key %016x, which the file does not have: %w", id, entry.ErrDamaged)
}

// opener returns what decrypts the records of a collection.
func (k *keyring) opener(collection string) seal.Opener {
	return seal.Opener{Collection: collection, Key: k.of, Locked: k.locked()}
}

// unlock unwraps the data keys of a file and, if write is true, chooses the current key. It writes nothing. It fails
// with ErrDamaged if their record is damaged: then the sealed contents are lost, and the rest can be read without keys.
func (k *keyring) unlock(ctx context.Context, h *boltfile.Handle, write bool) error {
	var data []byte
	err := h.View(func(tx *bolt.Tx) error {
		data = bytes.Clone(tx.Bucket(format.BucketLarder).Get(format.KeyKeys))
		return nil
	})
	if err != nil {
		return err
	}
	stored, err := format.ParseKeys(data)
	if k.locked() { // a record that cannot be read is reported once it is needed
		k.needs(stored)
		return nil
	}
	if isDamaged(err) {
		err = fmt.Errorf(
			"%w; what is sealed cannot be opened any more, whatever keys are given; all else can be read without keys", err)
	}
	if err != nil {
		return err
	}
	var all []*seal.DataKey
	for _, r := range stored {
		one, err := k.unwrap(ctx, r)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	var current *seal.DataKey
	if write {
		if current, err = k.currentOf(ctx, all); err != nil {
			return err
		}
		if !slices.Contains(all, current) {
			all = append(all, current)
		}
	}
	return k.hold(all, current)
}

// needs sets sealedUnder.
func (k *keyring) needs(stored []format.DataKey) {
	for _, r := range stored {
		if !slices.Contains(k.sealedUnder, r.Key) {
			k.sealedUnder = append(k.sealedUnder, r.Key)
		}
	}
}

// hold replaces the keys by all, which the file is to have from now on.
func (k *keyring) hold(all []*seal.DataKey, current *seal.DataKey) error {
	record, err := seal.AppendKeys(nil, all...)
	if err != nil {
		return err
	}
	held := &heldKeys{byID: make(map[uint64]*seal.DataKey, len(all)), current: current, record: record}
	for _, one := range all {
		held.byID[one.ID] = one
	}
	k.now.Store(held)
	return nil
}

// forgetOthers removes all keys but key, if key is still the current one.
func (k *keyring) forgetOthers(key *seal.DataKey) {
	if was := k.held(); was.current == key { // else keeping the other keys does no harm
		k.now.CompareAndSwap(was, &heldKeys{byID: map[uint64]*seal.DataKey{key.ID: key}, current: key, record: was.record})
	}
}

// unwrap decrypts a data key through the provider. It fails with ErrWrongKey if the provider lacks the key.
func (k *keyring) unwrap(ctx context.Context, r format.DataKey) (*seal.DataKey, error) {
	raw, err := k.provider.Unwrap(ctx, r.Key, r.Wrapped)
	var one *seal.DataKey
	if err == nil {
		one, err = seal.NewDataKey(r.ID, raw)
	}
	if err == nil && subtle.ConstantTimeCompare(one.Check, r.Check) != 1 {
		err = fmt.Errorf("%w: the provider has returned another key than was wrapped", seal.ErrWrongKey)
	}
	switch {
	case errors.Is(err, seal.ErrWrongKey):
		return nil,
			fmt.Errorf(
				"data key %016x, wrapped under key %s: %w; nothing was changed: the file can be opened only with that key, "+
					"which may be behind the current one; if it is lost, have everything listed anew into another file",
				r.ID, printable.Key(r.Key), err)
	case err != nil:
		return nil, fmt.Errorf("data key %016x, wrapped under key %s, could not be unwrapped, and nothing was changed: %w",
			r.ID, printable.Key(r.Key), err)
	}
	one.Wrapper, one.Wrapped, one.Created = r.Key, r.Wrapped, time.Unix(r.Created, 0)
	return one, nil
}

// currentOf returns the newest data key that is wrapped under the provider's current key, or makes a new data key.
func (k *keyring) currentOf(ctx context.Context, all []*seal.DataKey) (*seal.DataKey, error) {
	id, err := k.provider.CurrentKey(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for the current key: %w", err)
	}
	for _, one := range slices.Backward(all) {
		if one.Wrapper == id {
			return one, nil
		}
	}
	return k.make(ctx)
}

// make returns a new data key, wrapped under the provider's current key.
func (k *keyring) make(ctx context.Context) (*seal.DataKey, error) {
	raw := make([]byte, seal.KeySize)
	_, _ = rand.Read(raw) // never fails
	wrapper, wrapped, err := k.provider.Wrap(ctx, raw)
	if err != nil {
		clear(raw)
		return nil, fmt.Errorf("wrap a new data key: %w", err)
	}
	one, err := seal.NewDataKey(format.RandomID(), raw)
	if err != nil {
		return nil, err
	}
	one.Wrapper, one.Wrapped, one.Created = wrapper, wrapped, time.Now().Truncate(time.Second)
	return one, nil
}

// held returns the keys; there are none if k is locked.
func (k *keyring) held() *heldKeys {
	if held := k.now.Load(); held != nil {
		return held
	}
	return &heldKeys{}
}

// ensure writes the record of the data keys if the file does not have it yet, before anything is sealed with a new key.
func (k *keyring) ensure(tx *bolt.Tx) error {
	b, record := tx.Bucket(format.BucketLarder), k.held().record
	if record == nil || bytes.Equal(b.Get(format.KeyKeys), record) {
		return nil
	}
	return b.Put(format.KeyKeys, record)
}

// add adds a key and makes it current. record is the record of a new file, which has only this key. The other keys stay
// for reads of the old file.
func (k *keyring) add(key *seal.DataKey, record []byte) {
	next := &heldKeys{byID: maps.Clone(k.held().byID), current: key, record: record}
	next.byID[key.ID] = key
	k.now.Store(next)
}

// wipe removes all keys and overwrites them in memory.
func (k *keyring) wipe() {
	if held := k.now.Swap(&heldKeys{}); held != nil {
		for _, one := range held.byID {
			one.Wipe()
		}
	}
}

// CurrentKey returns the id of the provider's current key, under which Rekey seals; it is empty for a store without
// Options.Encryption.
func (s *Store) CurrentKey(ctx context.Context) (id string, err error) {
	if s.keys.locked() {
		return "", nil
	}
	return s.keys.provider.CurrentKey(ctx)
}

// Seals reports whether Options.Encryption seals a new collection of the resource.
func (s *Store) Seals(r schema.GroupResource) bool { return s.o.Encryption.Seals(r) }
