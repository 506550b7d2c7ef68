package crypt

import (
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	bolt "go.etcd.io/bbolt"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/seal"
)

// Ring holds the data keys of a file. The zero value is locked, as in a store without Options.Encryption. Fetch and
// Unlock must return before other methods are called. The other methods are safe for concurrent use.
//
// The file stores the wrapped keys in one record under format.KeyKeys, so every copy of the file has them too. The
// first transaction that uses a new current key also writes the record.
type Ring struct {
	provider seal.KeyProvider // provider wraps and unwraps the data keys; nil in a locked ring.
	now      atomic.Pointer[heldKeys]
	// sealedUnder has the ids of the provider's keys that wrap the file's keys, in a locked ring after Unlock.
	sealedUnder []string
}

// heldKeys is the immutable set of data keys that a Ring uses at one time.
type heldKeys struct {
	byID map[uint64]*dataKey
	// current is the key that seals new records; nil in a store that is open for reading.
	current *dataKey
	// record is the record of all data keys that the file must have.
	record []byte
}

// Fetch sets the provider, which Unlock uses to unwrap the data keys. It fails if the provider does not answer.
func (r *Ring) Fetch(ctx context.Context, e *seal.Encryption, log logr.Logger) error {
	switch {
	case e == nil:
		return nil
	case e.Keys == nil:
		return errors.New("Options.Encryption.Keys must be set; see ParseKeys")
	}
	r.provider = e.Keys
	if keys, ok := e.Keys.(interface{ ExposedFile() string }); ok && keys.ExposedFile() != "" {
		log.Info("Everybody on this machine can read the keys of the store; give the file mode 0400", "keys",
			keys.ExposedFile())
	}
	if _, err := r.CurrentKey(ctx); err != nil {
		return fmt.Errorf("ask for the current key: %w", err)
	}
	return nil
}

// Locked reports whether the ring has no keys, because the store was opened without Options.Encryption.
func (r *Ring) Locked() bool { return r.provider == nil }

// CurrentKey returns the id of the provider's current key, or "" in a locked ring.
func (r *Ring) CurrentKey(ctx context.Context) (id string, err error) {
	if r.Locked() {
		return "", nil
	}
	return r.provider.CurrentKey(ctx)
}

// ErrSealed returns seal.ErrSealed with the ids of the provider's keys that are needed.
func (r *Ring) ErrSealed() error {
	if len(r.sealedUnder) == 0 {
		return seal.ErrSealed
	}
	ids := make([]string, len(r.sealedUnder))
	for i, id := range r.sealedUnder {
		ids[i] = base.PrintableKey(id)
	}
	return fmt.Errorf("%w: it needs key %s", seal.ErrSealed, strings.Join(ids, ", "))
}

// IsSealed reports whether err means that the keys of a sealed record are missing, because the ring is locked.
func IsSealed(err error) bool { return errors.Is(err, seal.ErrSealed) }

// of returns the data key with this id. It fails with seal.ErrSealed in a locked ring, and with entry.ErrDamaged if the
// file does not have the key.
func (r *Ring) of(id uint64) (*dataKey, error) {
	if r.Locked() {
		return nil, r.ErrSealed()
	}
	if key := r.held().byID[id]; key != nil {
		return key, nil
	}
	return nil, fmt.Errorf("it is sealed with data key %016x, which the file does not have: %w", id, entry.ErrDamaged)
}

// Unlock unwraps the data keys of the file that view reads. If write is true, it also chooses the current key. Unlock
// writes nothing to the file. It fails with entry.ErrDamaged if the record of the keys is damaged: then the sealed
// contents are lost, and the other contents can be read without keys.
func (r *Ring) Unlock(ctx context.Context, view func(fn func(tx *bolt.Tx) error) error, write bool) error {
	var data []byte
	err := view(func(tx *bolt.Tx) error {
		data = bytes.Clone(tx.Bucket(format.BucketLarder).Get(format.KeyKeys))
		return nil
	})
	if err != nil {
		return err
	}
	stored, err := format.ParseKeys(data)
	if r.Locked() { // Without keys, only the first use of a sealed record reports an unreadable record of the keys.
		for _, one := range stored {
			if !slices.Contains(r.sealedUnder, one.Key) {
				r.sealedUnder = append(r.sealedUnder, one.Key)
			}
		}
		return nil
	}
	if errors.Is(err, entry.ErrDamaged) {
		err = fmt.Errorf(
			"%w; what is sealed cannot be opened any more, whatever keys are given; all else can be read without keys", err)
	}
	if err != nil {
		return err
	}
	var all []*dataKey
	for _, wrapped := range stored {
		one, err := r.unwrap(ctx, wrapped)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	var current *dataKey
	if write {
		if current, err = r.currentOf(ctx, all); err != nil {
			return err
		}
		if !slices.Contains(all, current) {
			all = append(all, current)
		}
	}
	return r.hold(all, current)
}

// hold makes all the ring's keys, and current the key for new records. It also makes the record that stores the keys.
func (r *Ring) hold(all []*dataKey, current *dataKey) error {
	held := &heldKeys{byID: make(map[uint64]*dataKey, len(all)), current: current}
	keys := make([]format.DataKey, len(all))
	for i, k := range all {
		held.byID[k.id] = k
		keys[i] = format.DataKey{ID: k.id, Key: k.wrapper, Wrapped: k.wrapped, Check: k.check, Created: k.created.Unix()}
	}
	if len(all) > 0 {
		var err error
		if held.record, err = format.AppendKeys(nil, keys); err != nil {
			return err
		}
	}
	r.now.Store(held)
	return nil
}

// held returns the current set of data keys, which is empty in a locked ring.
func (r *Ring) held() *heldKeys {
	if held := r.now.Load(); held != nil {
		return held
	}
	return &heldKeys{}
}

// Record returns the record of the data keys that the file must have, or nil without keys.
func (r *Ring) Record() []byte { return r.held().record }

// Ensure writes the record of the data keys to a file that lacks it. Call it before sealing with a new key.
func (r *Ring) Ensure(tx *bolt.Tx) error {
	b, record := tx.Bucket(format.BucketLarder), r.Record()
	if record == nil || bytes.Equal(b.Get(format.KeyKeys), record) {
		return nil
	}
	return b.Put(format.KeyKeys, record)
}

// Renewed returns the ring for a resealed copy of the file. It has one new data key, wrapped by the provider's current
// key. id is the id of the provider's key.
func (r *Ring) Renewed(ctx context.Context) (fresh *Ring, id string, err error) {
	key, err := r.make(ctx)
	if err != nil {
		return nil, "", err
	}
	fresh = &Ring{provider: r.provider}
	return fresh, key.wrapper, fresh.hold([]*dataKey{key}, key)
}

// Add adds the key of fresh, a result of Renewed, and makes it current. The other keys stay for reads of the old file.
func (r *Ring) Add(fresh *Ring) {
	next := *fresh.held()
	next.byID = maps.Clone(r.held().byID)
	next.byID[next.current.id] = next.current
	r.now.Store(&next)
}

// ForgetOthers removes all data keys except the key of fresh, if that is still the current key.
func (r *Ring) ForgetOthers(fresh *Ring) {
	if was := r.held(); was.current == fresh.held().current { // Keeping too many keys does no harm.
		r.now.CompareAndSwap(was, fresh.held())
	}
}

// Wipe removes all keys and overwrites them in memory.
func (r *Ring) Wipe() {
	if held := r.now.Swap(&heldKeys{}); held != nil {
		for _, one := range held.byID {
			one.wipe()
		}
	}
}

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

// dataKey seals the contents of one file. It does not keep the raw key of 32 random bytes, but the keys derived from it
// by HKDF-Expand with SHA-256.
type dataKey struct {
	id uint64
	// wrapper is the id of the provider's key, and wrapped is this data key as wrapped by the provider.
	wrapper string
	wrapped []byte
	created time.Time // created is in whole seconds.
	// check is a hash of the raw key, to verify an unwrapped key.
	check []byte
	// records seals payloads with random nonces. Nonces of 24 bytes do not repeat, however many records are written.
	records cipher.AEAD
	// values seals index values, and mac is the key of their hashes; see token.
	values cipher.AEAD
	mac    []byte
}

// Labels from which keys are derived. They are part of the file's format.
const (
	deriveRecords = "larder 1 records"
	deriveValues  = "larder 1 index values"
	deriveMAC     = "larder 1 index hashes"
	deriveCheck   = "larder 1 check"
)

// newDataKey returns the dataKey of a raw key of 32 bytes. It overwrites raw.
func newDataKey(id uint64, raw []byte) (*dataKey, error) {
	defer clear(raw)
	if len(raw) != seal.KeySize {
		return nil, fmt.Errorf("a data key of %d bytes; it must have %d: %w", len(raw), seal.KeySize, seal.ErrWrongKey)
	}
	k := &dataKey{id: id}
	var parts [4][]byte
	for i, info := range []string{deriveRecords, deriveValues, deriveMAC, deriveCheck} {
		part, err := hkdf.Expand(sha256.New, raw, info, seal.KeySize)
		if err != nil {
			return nil, err
		}
		parts[i] = part
	}
	var err [2]error
	k.records, err[0] = chacha20poly1305.NewX(parts[0])
	k.values, err[1] = chacha20poly1305.NewX(parts[1])
	k.mac, k.check = parts[2], parts[3][:16]
	clear(parts[0])
	clear(parts[1])
	return k, errors.Join(err[:]...)
}

// wipe overwrites mac in memory. The keys inside the ciphers cannot be overwritten.
func (k *dataKey) wipe() { clear(k.mac) }

// A token replaces a value of a sealed index, in the headers of records and in index entries:
//
//	bytes 0-7    id of the data key, big endian
//	bytes 8-39   HMAC-SHA256 of the collection's id, the index's name and the value: the keyed hash for look-ups
//	the rest     the value, sealed with XChaCha20-Poly1305: its nonce is the first 24 bytes of the hash, its associated
//	             data are bytes 0 to 39
//
// So equal values of an index have equal tokens under one data key, and their entries are adjacent. A nonce repeats
// only if the whole token does (a synthetic IV, as in RFC 5297).
const (
	tokenFixed = 8 + sha256.Size
	tokenLeast = tokenFixed + chacha20poly1305.Overhead
)

// token returns the stored form of a value of a sealed index.
func (k *dataKey) token(collection, index, value string) string {
	t := binary.BigEndian.AppendUint64(make([]byte, 0, tokenLeast+len(value)), k.id)
	t = append(t, k.hash(collection, index, value)...)
	head := t[:tokenFixed:tokenFixed]
	return string(k.values.Seal(t, head[8:8+chacha20poly1305.NonceSizeX], []byte(value), head))
}

func (k *dataKey) hash(collection, index, value string) []byte {
	mac := hmac.New(sha256.New, k.mac)
	_, _ = mac.Write(format.AppendSized(format.AppendSized(nil, collection), index)) // The hash never returns an error.
	_, _ = mac.Write([]byte(value))
	return mac.Sum(nil)
}

// tokenKey returns the id of a token's data key. ok is false for malformed tokens.
func tokenKey(token string) (id uint64, ok bool) {
	if len(token) < tokenLeast {
		return 0, false
	}
	return binary.BigEndian.Uint64([]byte(token[:8])), true
}

// value decrypts a token. It fails with format.ErrNotSealed for a damaged token, or one of another index or collection.
func (k *dataKey) value(collection, index, token string) (string, error) {
	if len(token) < tokenLeast {
		return "", format.ErrNotSealed
	}
	head := []byte(token[:tokenFixed])
	plain, err := k.values.Open(nil, head[8:8+chacha20poly1305.NonceSizeX], []byte(token[tokenFixed:]), head)
	if err != nil || subtle.ConstantTimeCompare(k.hash(collection, index, string(plain)), head[8:]) != 1 {
		// The token is of another index or collection.
		return "", format.ErrNotSealed
	}
	return string(plain), nil
}

// tokens returns a copy of terms, the values of an object by index name, with tokens in place of the values.
func (k *dataKey) tokens(collection string, terms map[string][]string) map[string][]string {
	if len(terms) == 0 {
		return nil
	}
	all := make(map[string][]string, len(terms))
	for index, values := range terms {
		tokens := make([]string, len(values))
		for i, value := range values {
			tokens[i] = k.token(collection, index, value)
		}
		all[index] = tokens
	}
	return all
}
