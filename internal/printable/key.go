package printable

import "fmt"

// maxLegible is the length of the longest key that Kubernetes allows, in bytes.
const maxLegible = 63 + 1 + 253

// Key is a key of the file as messages show it. What a damaged page calls a key may be
// tens of kilobytes of somebody's object: it is cut where it stops to look like a key.
func Key(key string) string {
	n := 0
	for n < len(key) && n < maxLegible && key[n] >= ' ' && key[n] <= '~' {
		n++
	}
	if n == len(key) {
		return fmt.Sprintf("%q", key)
	}
	return fmt.Sprintf("%q… (%d bytes)", key[:n], len(key))
}
