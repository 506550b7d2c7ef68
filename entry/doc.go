// Package entry holds the words that every other package of Larder shares: what a collection is of (Identity,
// Attributes, ResourceInfo), what identifies one state of one object (ObjectRef), an object as bytes (Entry), an object
// that was refused (LeftOut), and the errors that more than one package returns (ErrDamaged, ErrIncompatible).
//
// The types are plain values: nothing here does input or output, takes a lock or starts a goroutine.
package entry
