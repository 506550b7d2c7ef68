package snapshot

import "strings"

// mayBeNamespaced reports whether objects of a collection of all namespaces can be in a namespace. If c has no objects,
// and its resource has no description by a server (short names, categories or columns), the program that stored it may
// not have known, so they can.
func mayBeNamespaced(c Collection) bool {
	r := c.Resource
	described := len(r.ShortNames) > 0 || len(r.Categories) > 0 || len(r.Columns) > 0
	return r.Namespaced || c.Objects == 0 && !described
}

// noteKey sets Resource.Namespaced from the first key of c.
func (c *Collection) noteKey(key string) {
	c.Resource.Namespaced = c.Resource.Namespaced || strings.Contains(key, "/")
}
