package intake

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// Held is a consistent view of a collection. It is valid until the function that it was passed to returns.
type Held interface {
	// Info returns the Info. Its slices are shared and must not be modified.
	Info() (entry.Info, error)
	Has(key string) bool
	// Get returns the object with that key, or nil if there is none. The object is valid until the next call of get.
	Get(key string) (HeldObject, error)
	// After calls fn with each key that follows the given one, in order, and the approximate size of its object in bytes,
	// until fn returns false.
	After(key string, fn func(key string, size int) bool) error
}

// HeldObject is an object that a collection holds.
type HeldObject interface {
	Version() (uid, rv string)
	// Object returns nil if it cannot be decoded.
	Object() (runtime.Object, error)
	// SameBody reports whether x need not be written: the held body has the same bytes, and is compressed and sealed as x
	// would be.
	SameBody(x *memtable.Write) (bool, error)
}
