package serve

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

type path struct {
	schema.GroupVersionResource
	subresource, namespace, name string
}

// parsePath parses a URL path below /api or /apis. ok is false if the path does not name a resource.
func parsePath(text string) (p path, ok bool) {
	parts := strings.Split(strings.Trim(text, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		p.Version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		p.Group, p.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return p, false
	}
	if parts[0] == "namespaces" && len(parts) > 2 && !(len(parts) == 3 && isNamespaceSubresource(parts[2])) {
		p.namespace, parts = parts[1], parts[2:]
	}
	switch len(parts) {
	case 3:
		p.subresource = parts[2]
		fallthrough
	case 2:
		p.name = parts[1]
		fallthrough
	case 1:
		p.Resource = parts[0]
	default: // proxy requests have a longer subresource
		p.Resource, p.name, p.subresource = parts[0], parts[1], strings.Join(parts[2:], "/")
	}
	if slices.Contains(strings.Split(text, "/"), "..") || slices.Contains(parts[:min(len(parts), 2)], "") {
		return p, false
	}
	return p, p.namespace != "" || !strings.Contains(text, "/namespaces//")
}

// isNamespaceSubresource reports whether namespaces/NAME/name is a subresource, not a resource in the namespace.
func isNamespaceSubresource(name string) bool { return name == "status" || name == "finalize" }

// prefix returns the key of the object that the path names, or the prefix of the keys of a namespace's objects.
func (p path) prefix() string {
	if p.namespace == "" {
		return p.name
	}
	return p.namespace + "/" + p.name
}
