package seal

import (
	"context"
	"fmt"
	"os"
)

// KeyFile returns a KeyProvider that reads the keys from a file on every use. So a key that is inserted before the
// first one is the current key of the next Open or Rekey, even of a store that is open already. KeyFile fails where
// KeysFromFile does, and if path is not a regular file: a pipe, for example, can be read only once.
func KeyFile(path string) (KeyProvider, error) {
	f := keyFile{path}
	if _, err := f.read(); err != nil {
		return nil, err
	}
	return f, nil
}

// keyFile is the KeyProvider of KeyFile.
type keyFile struct{ path string }

func (f keyFile) read() (*Keys, error) {
	if info, err := os.Stat(f.path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		// A directory is left to KeysFromFile, whose error says what it is.
		return nil, fmt.Errorf("read the keys: %s is no regular file; the keys are read on every use, so a pipe is no use",
			f.path)
	}
	return KeysFromFile(f.path)
}

// CurrentKey implements KeyProvider.
func (f keyFile) CurrentKey(ctx context.Context) (id string, err error) {
	keys, err := f.read()
	if err != nil {
		return "", err
	}
	return keys.CurrentKey(ctx)
}

// Wrap implements KeyProvider.
func (f keyFile) Wrap(ctx context.Context, dataKey []byte) (id string, wrapped []byte, err error) {
	keys, err := f.read()
	if err != nil {
		return "", nil, err
	}
	return keys.Wrap(ctx, dataKey)
}

// Unwrap implements KeyProvider.
func (f keyFile) Unwrap(ctx context.Context, id string, wrapped []byte) (dataKey []byte, err error) {
	keys, err := f.read()
	if err != nil {
		return nil, err
	}
	return keys.Unwrap(ctx, id, wrapped)
}

// ExposedFile returns the path of the file if users other than its owner and group can read it, and "" if not or if the
// keys cannot be read.
func (f keyFile) ExposedFile() string {
	keys, err := f.read()
	if err != nil {
		return ""
	}
	return keys.exposed
}

// ExposedFile returns the path of the file that the keys were read from if users other than its owner and group can
// read it, and "" if not.
func (k *Keys) ExposedFile() string { return k.exposed }
