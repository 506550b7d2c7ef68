package store

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store/internal/compress"
)

// write is one object on its way into the file: keyed, encoded and indexed
// before any transaction begins.
type write struct {
	key     string
	del     bool
	obj     runtime.Object // for a delete: what the event carried, or nil
	uid, rv string
	// event is Op.Event; empty if the op before it, of the same key and batch, was skipped.
	event cache.DeltaType
	// payload is what the codec has made of obj, before anybody else was given obj, and payloadSize how long it is. Of
	// a delete it is that of the last state, and nil if nobody wants that.
	payload     []byte
	payloadSize int
	// packed is payload compressed with dict, as the file gets it; nil if it gets payload. Only who commits uses them.
	packed []byte
	dict   *compress.Dictionary
	terms  map[string][]string
	// order is the place of the write among all that the overlay was given.
	order uint64
	// sameObject: the file has the same state of the object, and only how it is stored changes.
	sameObject bool
	// gone is the delete, not committed either, of the object that the file has under the key; nil if there was none before x.
	gone *write
}

// object returns what the write leaves under its key.
func (x *write) object() runtime.Object {
	if x.del {
		return nil
	}
	return x.obj
}

// size is roughly what x takes in memory, and in a transaction.
func (x *write) size() int {
	n := 128 + len(x.key) + len(x.uid) + len(x.rv) + x.payloadSize
	if x.gone != nil {
		n += x.gone.payloadSize
	}
	for name, values := range x.terms {
		n += len(name) + 48
		for _, value := range values {
			n += len(value) + 16
		}
	}
	return n
}

// lastOf returns the delete of the object with that UID which carried its last state, encoded; nil if x knows of none.
func (x *write) lastOf(uid string) *write {
	switch {
	case x == nil || uid == "":
	case x.del && x.uid == uid && x.payload != nil:
		return x
	case x.gone != nil && x.gone.uid == uid && x.gone.payload != nil:
		return x.gone
	}
	return nil
}

// follow notes what x comes after that has not been committed: the first delete, which is the one of the object in the file.
func (x *write) follow(before *write) {
	switch {
	case before.gone != nil:
		x.gone = before.gone
	case before.del && before.obj != nil:
		x.gone = before
	}
}
