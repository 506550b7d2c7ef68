package snapshot

import "strings"

// mayBeNamespaced says whether objects of a collection of all namespaces can be in one. What has stored them need not
// have known: then the first key has told the Source, and where there is none, a resource that is described as servers
// do (with short names, categories or columns).
func mayBeNamespaced(c Collection) bool {
	r := c.Resource
	described := len(r.ShortNames) > 0 || len(r.Categories) > 0 || len(r.Columns) > 0
	return r.Namespaced || c.Objects == 0 && !described
}

// noteKey notes what the first key of c tells of its scope.
func (c *Collection) noteKey(key string) {
	c.Resource.Namespaced = c.Resource.Namespaced || strings.Contains(key, "/")
}
