// Package entry defines the types that all packages of Larder share. Identity, Attributes and ResourceInfo describe a
// collection, and Info is its state. ObjectRef identifies one state of one object. Entry is an encoded object, and
// LeftOut a refused one. Callers apply a Batch of Ops to a collection, and get a Result with Changes. ErrDamaged and
// ErrIncompatible are errors of several packages.
//
// The types are plain values: no function of this package does I/O or starts a goroutine.
package entry
