package yamldir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
)

// cluster is the directory of objects that are in no namespace. No namespace is called so.
const cluster = "_cluster"

// maxElement bounds a name in bytes before ".yaml": 255 are allowed by most file systems, 143 by some that encrypt.
const maxElement = 130

// Path returns the file of an object: namespace or _cluster, resource with its group (deployments.apps), name. It is
// legal on every file system, those that know no case too, and no two objects of a cluster have the same.
func Path(namespace, resource, name string) string {
	if namespace == "" {
		namespace = cluster
	} else {
		namespace = element(namespace)
	}
	return path.Join(namespace, element(resource), element(name)+".yaml")
}

// element is a name as an element of a path: bytes other than small letters, digits, "-", "." and "_" are written as
// %XX, and so is the first byte of names that Windows keeps for devices, or that mean something to a shell or to git.
// What is too long is cut, and ends in a hash of the whole.
func element(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		plain := c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' && i > 0 || c == '-' && i > 0 || c == '.' &&
			i > 0 && i < len(name)-1
		if plain && (i > 0 || !isDevice(name)) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	text := b.String()
	if len(text) <= maxElement {
		return text
	}
	sum := sha256.Sum256([]byte(name))
	return strings.TrimRight(text[:maxElement-17], ".") + "~" + hex.EncodeToString(sum[:8])
}

// isDevice says whether Windows takes a file of that name for a device, whatever comes after a dot.
func isDevice(name string) bool {
	base, _, _ := strings.Cut(name, ".")
	switch base {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(base) == 4 && (strings.HasPrefix(base, "com") || strings.HasPrefix(base, "lpt")) && base[3] >= '0' &&
		base[3] <= '9'
}
