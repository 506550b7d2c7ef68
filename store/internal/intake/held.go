package intake

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/index"
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
	// SameBody reports whether the held body and that of x are equal: their bytes, or, in a collection that encodes
	// nothing, the decoded objects.
	SameBody(x *memtable.Write) (bool, error)
	// SameTerms reports whether the held object has the terms of x in the indexes of set. An index of the file that is not
	// ready does not count: a build gives all records their terms.
	SameTerms(set *index.Set, x *memtable.Write) (bool, error)
	// InForm reports whether the held body is compressed and sealed as x, which has the same body, would be.
	InForm(x *memtable.Write) bool
}
