package store

import "context"

// KeyFile returns the keys of a file as a KeyProvider that reads the file anew whenever a key is needed: a key that is put on top of it is the current one for the next
// Open or Rekey, that of a store that is open too. It fails as KeysFromFile does.
func KeyFile(path string) (KeyProvider, error) {
	if _, err := KeysFromFile(path); err != nil {
		return nil, err
	}
	return keyFile{path}, nil
}

// keyFile is the file's path.
type keyFile struct{ path string }

// CurrentKey implements KeyProvider.
func (f keyFile) CurrentKey(ctx context.Context) (id string, err error) {
	keys, err := KeysFromFile(f.path)
	if err != nil {
		return "", err
	}
	return keys.CurrentKey(ctx)
}

// Wrap implements KeyProvider.
func (f keyFile) Wrap(ctx context.Context, dataKey []byte) (id string, wrapped []byte, err error) {
	keys, err := KeysFromFile(f.path)
	if err != nil {
		return "", nil, err
	}
	return keys.Wrap(ctx, dataKey)
}

// Unwrap implements KeyProvider.
func (f keyFile) Unwrap(ctx context.Context, id string, wrapped []byte) (dataKey []byte, err error) {
	keys, err := KeysFromFile(f.path)
	if err != nil {
		return nil, err
	}
	return keys.Unwrap(ctx, id, wrapped)
}

// exposedFile is the file if others than its owner and group can read it.
func (f keyFile) exposedFile() string {
	keys, err := KeysFromFile(f.path)
	if err != nil {
		return ""
	}
	return keys.exposed
}

func (k *Keys) exposedFile() string { return k.exposed }
