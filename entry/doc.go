// Package entry defines the types that all packages of Larder share. Identity, Attributes and ResourceInfo describe a
// collection, and Info is its state. ObjectRef identifies one state of one object. Entry is an encoded object, and
// LeftOut a refused one. A Batch of Ops is applied to a collection, and a Result with its Changes is the effect.
// ErrDamaged and ErrIncompatible are errors that several packages return.
//
// The types are plain values: no function of this package does I/O, takes a lock or starts a goroutine.
package entry
