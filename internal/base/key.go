package base

import "fmt"

// maxKey is the length in bytes of the longest object key, namespace/name, that Kubernetes allows.
const maxKey = 63 + 1 + 253

// PrintableKey returns an object's key from a file in a form that is safe in messages. In a damaged page of the file,
// tens of kilobytes of an object's content may follow a key, so PrintableKey cuts the key at the first byte that keys
// cannot contain.
func PrintableKey(key string) string {
	n := 0
	for n < len(key) && n < maxKey && key[n] >= ' ' && key[n] <= '~' {
		n++
	}
	if n == len(key) {
		return fmt.Sprintf("%q", key)
	}
	return fmt.Sprintf("%q… (%d bytes)", key[:n], len(key))
}
