package seal

import (
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/larder-dev/larder/internal/printable"
)

// Keys are keys from a text. They implement KeyProvider: data keys are wrapped with XChaCha20-Poly1305. Printed, they
// show ids and names only.
type Keys struct {
	all []namedKey // the first is the current one
	// exposed is the file that they come from, if others than its owner and group can read it.
	exposed string
}

// readableByAll: what a file's mode says of others means something.
const readableByAll = runtime.GOOS != "windows"

// namedKey is one of them. Its id is made of the key itself, so that a name can be given to another one.
type namedKey struct {
	id, name string
	aead     cipher.AEAD
}

// KeySize is how long a key is, in bytes: those of ParseKeys, and data keys.
const KeySize = chacha20poly1305.KeySize

// maxKeys is how long a text with keys may be, in bytes.
const maxKeys = 1 << 20

// ParseKeys reads keys, one a line: 32 random bytes in base64, as GenerateKey makes them, after a name and a colon if
// one is wanted. Empty lines and what follows a # are passed over. The first key is the current one, the others are for
// what was sealed before: to rotate, put a new one on top, open the store with that, Rekey, and remove the old one. No
// error holds any part of a key.
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
	key := make([]byte, base64.RawStdEncoding.DecodedLen(len(line))) // for either, with padding or without
	defer clear(key)
	n, err := base64.StdEncoding.Decode(key, line)
	if err != nil {
		n, err = base64.RawStdEncoding.Decode(key, line)
	}
	if err != nil { // which says where in the key, and is not needed
		return k, fmt.Errorf("it is not base64; a key is %d random bytes in base64", KeySize)
	}
	if n != KeySize {
		return k, fmt.Errorf("the key has %d bytes; it must have %d", n, KeySize)
	}
	k.id = keyID(key[:n])
	k.aead, err = chacha20poly1305.NewX(key[:n])
	return k, err
}

// keyID tells keys apart, and says nothing of them: they are random.
func keyID(key []byte) string {
	sum := sha256.Sum256(append([]byte("larder key id 1\x00"), key...))
	return hex.EncodeToString(sum[:8])
}

// KeysFromFile is ParseKeys of a file. That others than its owner and group can read it is no error (Kubernetes mounts
// Secrets so unless it is told a defaultMode), but Open logs it.
func KeysFromFile(path string) (*Keys, error) {
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
	if info.Mode().Perm()&0o007 != 0 && readableByAll {
		k.exposed = path
	}
	return k, nil
}

// KeysFromEnv is ParseKeys of an environment variable, which other processes of the same user can read as long as this
// one lasts.
func KeysFromEnv(name string) (*Keys, error) {
	text := os.Getenv(name)
	if text == "" {
		return nil, fmt.Errorf("the environment variable %s, which is to hold the keys, is empty or not set", name)
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
	_, _ = rand.Read(key) // never fails
	line := base64.StdEncoding.EncodeToString(key) + "\n"
	if name != "" {
		line = name + ":" + line
	}
	return line, nil
}

// CurrentKey implements KeyProvider.
func (k *Keys) CurrentKey(context.Context) (string, error) { return k.all[0].id, nil }

// Wrap implements KeyProvider.
func (k *Keys) Wrap(_ context.Context, dataKey []byte) (id string, wrapped []byte, err error) {
	current := &k.all[0]
	return current.id, sealWith(current.aead, nil, []byte(current.id), dataKey), nil
}

// Unwrap implements KeyProvider.
func (k *Keys) Unwrap(_ context.Context, id string, wrapped []byte) ([]byte, error) {
	key := k.find(id)
	if key == nil {
		return nil, fmt.Errorf("%w: it is sealed under key %s, and there are %v", ErrWrongKey, printable.Key(id), k)
	}
	dataKey, err := OpenWith(key.aead, nil, []byte(id), wrapped)
	if err != nil {
		return nil, fmt.Errorf("%w: it is not what was wrapped under key %s", ErrWrongKey, key)
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

// String names the keys, the current one first.
func (k *Keys) String() string {
	names := make([]string, len(k.all))
	for i := range k.all {
		names[i] = k.all[i].String()
	}
	return "keys " + strings.Join(names, ", ")
}

// Format implements fmt.Formatter, so that no verb shows more than String.
func (k *Keys) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.String())) }
