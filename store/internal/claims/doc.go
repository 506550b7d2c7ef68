// Package claims knows which collections of a store are open, by name. Each name has at most one holder. A caller that
// wants a name whose holder is closing waits for the release.
package claims
