package seal

import (
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/internal/format"
)

// Encryption makes a store seal objects of some resources: their payloads, tombstones, index terms and dictionaries.
// Names, namespaces, UIDs, resourceVersions, sizes and times stay readable, and in memory nothing is sealed.
// docs/adr/0012 has the reasons.
type Encryption struct {
	// Keys wraps the data keys, which are random, and different in each file. Required. See ParseKeys for keys from a
	// text, and KeyProvider for a KMS.
	Keys KeyProvider
	// Resources whose collections are sealed, in any scope, version and representation. Default (nil): core Secrets.
	// A collection that has been sealed stays sealed, even if Resources no longer has it, until it is dropped.
	Resources []schema.GroupResource
}

// KeyProvider wraps and unwraps data keys with keys that it does not reveal (envelope encryption), as a KMS does. Open
// and Rekey call its methods, perhaps concurrently, and never while a transaction is open. The methods should return
// when ctx ends. Their errors are shown to users, and must contain no key.
//
// Ids must be stable: an id names the same key for ever, and CurrentKey and Wrap return the same id for a key. With a
// KMS use the ARN or resource name of the key (of its version, if Unwrap needs that). Do not use an alias, for two
// reasons:
//
//   - The KMS answers with the key's own name. If Wrap returns another id than CurrentKey (the ARN for the alias), no
//     data key seems to be wrapped by the current key. Then each Open for writing makes another data key, which is
//     stored when it first seals an object, and the file collects data keys until Rekey.
//   - An alias can be moved to another key, and the store does not notice that rotation: earlier data keys stay in use,
//     and Unwrap is called for them with an id whose key does not fit. Then Open fails with ErrWrongKey, unless the
//     provider finds the key by the wrapped data.
type KeyProvider interface {
	// CurrentKey returns the id of the key that Wrap uses. If it has wrapped no data key of the file, Open makes a new
	// data key. Ids are stored in the file in plain text.
	CurrentKey(ctx context.Context) (id string, err error)
	// Wrap encrypts a data key of 32 bytes with the current key, and returns that key's id, as CurrentKey does. It must
	// not keep dataKey.
	Wrap(ctx context.Context, dataKey []byte) (id string, wrapped []byte, err error)
	// Unwrap decrypts a wrapped data key. The caller owns the result, and overwrites it. If the provider has no key of
	// that id, or the key does not fit, the error must wrap ErrWrongKey. Any other error means that the provider cannot be
	// reached.
	Unwrap(ctx context.Context, id string, wrapped []byte) (dataKey []byte, err error)
}

// secrets is the default of Encryption.Resources.
var secrets = schema.GroupResource{Resource: "secrets"}

// Seals reports whether new collections of the resource are sealed. A nil Encryption seals nothing.
func (e *Encryption) Seals(r schema.GroupResource) bool {
	if e == nil {
		return false
	}
	all := e.Resources
	if all == nil {
		all = []schema.GroupResource{secrets}
	}
	for _, one := range all {
		if strings.EqualFold(one.Group, r.Group) && strings.EqualFold(one.Resource, r.Resource) {
			return true
		}
	}
	return false
}

// Keys is a KeyProvider with keys that were parsed from text. It wraps data keys with XChaCha20-Poly1305. Package fmt
// prints only the ids and names of the keys.
type Keys struct {
	all []namedKey // the keys; the first is the current key
	// path is the file from which the keys are read again on every use; "" if the keys never change.
	path string
	// exposed says that users other than its owner and group can read the file.
	exposed bool
}

// readableByAll is true on systems where the permission bits of a file say whether all users can read it.
const readableByAll = runtime.GOOS != "windows"

// namedKey is one key of Keys. Its id is a hash of the key, so a name can be reused for another key.
type namedKey struct {
	id, name string
	aead     cipher.AEAD
}

// KeySize is the length in bytes of data keys and of the keys that ParseKeys reads.
const KeySize = chacha20poly1305.KeySize

// maxKeys is the maximum size of a key file, in bytes.
const maxKeys = 1 << 20

// ParseKeys parses one key per line: 32 random bytes in base64, as GenerateKey returns them, optionally preceded by a
// name and a colon. Empty lines, and text after a #, are ignored. The first key is the current key; the others unwrap
// data keys that were wrapped before. To rotate, insert a new key before the first, open the store, call Rekey, and
// remove the old key. No error contains any part of a key.
func ParseKeys(text []byte) (*Keys, error) {
	k := &Keys{}
	for n, line := range bytes.Split(text, []byte("\n")) {
		line, _, _ = bytes.Cut(line, []byte("#"))
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		one, err := parseKey(line)
		if err != nil {
			return nil, fmt.Errorf("line %d of the keys: %w", n+1, err)
		}
		if other := k.find(one.id); other != nil {
			return nil, fmt.Errorf("line %d of the keys has the same key as an earlier one (%s)", n+1, other)
		}
		k.all = append(k.all, one)
	}
	if len(k.all) == 0 {
		return nil, fmt.Errorf("there is no key in %d bytes of text; a key is a line of %d random bytes in base64", len(text),
			KeySize)
	}
	return k, nil
}

func parseKey(line []byte) (namedKey, error) {
	var k namedKey
	if name, rest, named := bytes.Cut(line, []byte(":")); named {
		k.name, line = string(bytes.TrimSpace(name)), bytes.TrimSpace(rest)
	}
	key := make([]byte, base64.RawStdEncoding.DecodedLen(len(line))) // large enough with and without padding
	defer clear(key)
	n, err := base64.StdEncoding.Decode(key, line)
	if err != nil {
		n, err = base64.RawStdEncoding.Decode(key, line)
	}
	if err != nil { // err is not wrapped, because it contains an offset in the key
		return k, fmt.Errorf("it is not base64; a key is %d random bytes in base64", KeySize)
	}
	if n != KeySize {
		return k, fmt.Errorf("the key has %d bytes; it must have %d", n, KeySize)
	}
	k.id = keyID(key[:n])
	k.aead, err = chacha20poly1305.NewX(key[:n])
	return k, err
}

// keyID returns the id of a key: a hash, which reveals nothing about the key because keys are random.
func keyID(key []byte) string {
	sum := sha256.Sum256(append([]byte("larder key id 1\x00"), key...))
	return hex.EncodeToString(sum[:8])
}

// KeysFromFile reads a file and parses it by ParseKeys. The file is read again on every use. So if a new key is
// inserted before the first one, the next Open or Rekey uses it as the current key, even in a store that is open
// already. If users other than the file's owner and group can read the file, as with Secrets that Kubernetes mounts
// without a defaultMode, KeysFromFile succeeds and Open logs it.
func KeysFromFile(path string) (*Keys, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read the keys: %s is no regular file; it is read on every use, so it cannot be a pipe", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err == nil && info.Size() > maxKeys {
		err = fmt.Errorf("%s has %d bytes, more than %d", path, info.Size(), maxKeys)
	}
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeys))
	defer clear(text)
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	k, err := ParseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	k.path, k.exposed = path, info.Mode().Perm()&0o007 != 0 && readableByAll
	return k, nil
}

// KeysFromEnv parses the value of an environment variable by ParseKeys. Other processes of the same user can read the
// variable as long as this process runs.
func KeysFromEnv(name string) (*Keys, error) {
	text := os.Getenv(name)
	if text == "" {
		return nil, fmt.Errorf("the environment variable %s is empty or not set; it must hold the keys", name)
	}
	k, err := ParseKeys([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("the environment variable %s: %w", name, err)
	}
	return k, nil
}

// GenerateKey returns a line for ParseKeys with a new key, and a name if that is not empty. It ends with a line feed.
func GenerateKey(name string) (string, error) {
	if strings.ContainsAny(name, ":#\r\n") {
		return "", fmt.Errorf("a key cannot be named %q: a name has no colon, no # and no line feed", name)
	}
	key := make([]byte, KeySize)
	defer clear(key)
	_, _ = rand.Read(key) // rand.Read never fails
	line := base64.StdEncoding.EncodeToString(key) + "\n"
	if name != "" {
		line = name + ":" + line
	}
	return line, nil
}

// now returns the current keys: it reads the file again if there is one.
func (k *Keys) now() (*Keys, error) {
	if k.path == "" {
		return k, nil
	}
	return KeysFromFile(k.path)
}

// ExposedFile returns the path of the key file if users other than its owner and group could read it when k was read;
// otherwise "".
func (k *Keys) ExposedFile() string {
	if !k.exposed {
		return ""
	}
	return k.path
}

// CurrentKey implements KeyProvider.
func (k *Keys) CurrentKey(context.Context) (string, error) {
	k, err := k.now()
	if err != nil {
		return "", err
	}
	return k.all[0].id, nil
}

// Wrap implements KeyProvider.
func (k *Keys) Wrap(_ context.Context, dataKey []byte) (id string, wrapped []byte, err error) {
	if k, err = k.now(); err != nil {
		return "", nil, err
	}
	current := &k.all[0]
	return current.id, format.Seal(current.aead, []byte(current.id), dataKey), nil
}

// Unwrap implements KeyProvider.
func (k *Keys) Unwrap(_ context.Context, id string, wrapped []byte) ([]byte, error) {
	k, err := k.now()
	if err != nil {
		return nil, err
	}
	key := k.find(id)
	if key == nil {
		return nil, fmt.Errorf("%w: it is sealed under key %s, and there are %v", ErrWrongKey, base.PrintableKey(id), k)
	}
	dataKey, err := format.Unseal(key.aead, []byte(id), wrapped)
	if err != nil {
		return nil, fmt.Errorf("%w: the data key was not wrapped under key %s", ErrWrongKey, key)
	}
	return dataKey, nil
}

func (k *Keys) find(id string) *namedKey {
	for i := range k.all {
		if k.all[i].id == id {
			return &k.all[i]
		}
	}
	return nil
}

func (k *namedKey) String() string {
	if k.name == "" {
		return k.id
	}
	return k.name + " (" + k.id + ")"
}

// String returns the ids and names of the keys, the current key first.
func (k *Keys) String() string {
	names := make([]string, len(k.all))
	for i := range k.all {
		names[i] = k.all[i].String()
	}
	return "keys " + strings.Join(names, ", ")
}

// Format implements fmt.Formatter, so that no verb shows more than String.
func (k *Keys) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.String())) }

// Errors of encryption.
var (
	// ErrWrongKey says that the file is sealed, and that none of the given keys fits. The file was not changed. Open it
	// with the key that sealed it (for a rotation, put that key after the current one). If that key is lost, so are the
	// sealed objects: use another file, into which they are listed again.
	ErrWrongKey = errors.New("the keys do not fit")
	// ErrSealed says that the collection is sealed, and that the store was opened without Options.Encryption. The error
	// has the ids of the needed keys. The names of objects can be read (Info, Keys, Refs).
	ErrSealed = errors.New("it is sealed, and the store was opened without keys")
)
