package engine

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
)

// Held is a snapshot of a collection. It is valid until the function that received it returns.
type Held interface {
	// Info returns the Info. Its slices are shared and must not be modified.
	Info() (entry.Info, error)
	Has(key string) bool
	// Get returns the object with the key, or nil. The object is valid until the next call of Get.
	Get(key string) (HeldObject, error)
	// After calls fn with the keys after key, in order, and their objects' approximate sizes, until fn returns false.
	After(key string, fn func(key string, size int) bool) error
}

type HeldObject interface {
	Version() (uid, rv string)
	// Object returns the decoded object, or nil for an undecodable one.
	Object() (runtime.Object, error)
	// SameBody compares the payloads of the held object and x, or the decoded objects in a collection without a codec.
	SameBody(x *Write) (bool, error)
	// SameTerms reports whether the held object has the same index terms as x in the indexes of set. It ignores indexes
	// that are not ready in the file, because the build of an index sets the terms of all records.
	SameTerms(set *IndexSet, x *Write) (bool, error)
	// InForm reports whether the held payload is compressed and sealed as an equal payload in x would be.
	InForm(x *Write) bool
}
