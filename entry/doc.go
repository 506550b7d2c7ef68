// Package entry defines the types that all packages of Larder share. Identity, Attributes and ResourceInfo describe a
// collection, and Info is its state. ObjectRef identifies one state of one object. Entry is an encoded object, and
// LeftOut an object that was refused. A Batch of Ops is what is applied to a collection, and a Result with its Changes
// what that did. ErrDamaged and ErrIncompatible are errors that several packages return.
//
// The types are plain values: no function of this package does I/O, takes a lock or starts a goroutine.
package entry
