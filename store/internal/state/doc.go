// Package state reads and writes the stored state of a collection: its identity and attributes, its resourceVersion,
// the number of objects, and the states of its indexes and its changelog. The state is written in the same transaction
// as the objects that it covers.
package state
