// Package claims says which collections of a store are open, by their names: each has one holder, and whoever wants a
// name whose holder is about to give it back waits for that.
package claims
