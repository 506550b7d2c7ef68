// Package state reads and writes what the file keeps of a collection as a whole: its resourceVersion, what it is of,
// how many objects it has, the states of its indexes and of its changelog. It is written in the same transaction as
// the objects that it covers.
package state
