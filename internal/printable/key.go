package printable

import "fmt"

// maxKey is the length in bytes of the longest key that Kubernetes allows.
const maxKey = 63 + 1 + 253

// Key returns a key from the file in the form for messages. In a damaged page, the bytes of a key may be tens of
// kilobytes of an object's content. So Key cuts the key at the first byte that cannot be in a key.
func Key(key string) string {
	n := 0
	for n < len(key) && n < maxKey && key[n] >= ' ' && key[n] <= '~' {
		n++
	}
	if n == len(key) {
		return fmt.Sprintf("%q", key)
	}
	return fmt.Sprintf("%q… (%d bytes)", key[:n], len(key))
}
