package seal

import (
	"context"
	"fmt"
	"os"
)

// KeyFile returns the keys of a file as a KeyProvider that reads the file anew whenever a key is needed: a key that is
// put on top of it is the current one for the next Open or Rekey, that of a store that is open too. It fails as
// KeysFromFile does, and for what is not a regular file: a pipe can be read once.
func KeyFile(path string) (KeyProvider, error) {
	f := keyFile{path}
	if _, err := f.read(); err != nil {
		return nil, err
	}
	return f, nil
}

// keyFile is the file's path.
type keyFile struct{ path string }

func (f keyFile) read() (*Keys, error) {
	if info, err := os.Stat(f.path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		// a directory cannot be read, and says so
		return nil, fmt.Errorf("read the keys: %s is no regular file: it is read again and again, so write them to one",
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

// ExposedFile is the file if others than its owner and group can read it.
func (f keyFile) ExposedFile() string {
	keys, err := f.read()
	if err != nil {
		return ""
	}
	return keys.exposed
}

// ExposedFile is the file that the keys were read from, if others than its owner and group can read it; else empty.
func (k *Keys) ExposedFile() string { return k.exposed }
