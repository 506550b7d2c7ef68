package yamldir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
)

// cluster is the name of the directory of cluster-scoped objects. No namespace can have this name.
const cluster = "_cluster"

// maxElement is the maximum length in bytes of a file name without ".yaml". Most file systems allow 255 bytes, some
// encrypting file systems only 143.
const maxElement = 130

// Path returns the path of an object's file: namespace or _cluster, then the resource with its group
// (deployments.apps), then the name. The path is legal on every file system, including case-insensitive ones, and
// different objects of a cluster have different paths.
func Path(namespace, resource, name string) string {
	if namespace == "" {
		namespace = cluster
	} else {
		namespace = element(namespace)
	}
	return path.Join(namespace, element(resource), element(name)+".yaml")
}

// element returns a name in a form that is legal as an element of a path. Bytes other than small letters, digits, "-",
// "." and "_" are written as %XX, and so is the first byte of a name that is a device on Windows or has a meaning for a
// shell or git. A name that is too long is cut, and ends in a hash of the whole name.
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

func isDevice(name string) bool {
	base, _, _ := strings.Cut(name, ".")
	switch base {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(base) == 4 && (strings.HasPrefix(base, "com") || strings.HasPrefix(base, "lpt")) && base[3] >= '0' &&
		base[3] <= '9'
}
