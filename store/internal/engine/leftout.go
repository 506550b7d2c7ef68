package engine

import (
	"errors"
	"slices"
	"strings"

	"github.com/larder-dev/larder/entry"
)

// refusal is the error for which an object is left out of the collection.
type refusal struct {
	reason entry.LeftOutReason
	err    error // err is nil if the caller refused the object and has reported it.
}

func (r *refusal) Error() string {
	if r.err == nil {
		return "refused: " + string(r.reason)
	}
	return r.err.Error()
}

func (r *refusal) Unwrap() error { return r.err }

func refuse(reason entry.LeftOutReason, err error) error { return &refusal{reason, err} }

// leftOutOf returns the LeftOut entry of x, which was refused with err. Its Key is "" if x has no key.
func leftOutOf(x *Write, err error) entry.LeftOut {
	l := entry.LeftOut{ObjectRef: entry.ObjectRef{Key: x.Key, UID: x.UID, ResourceVersion: x.RV},
		Reason: entry.LeftOutCodec}
	if r := (*refusal)(nil); errors.As(err, &r) {
		l.Reason = r.reason
	}
	return l
}

// reportable reports whether the caller must learn of a skipped object: a caller knows of its own refusals.
func reportable(err error) bool {
	r := (*refusal)(nil)
	return !errors.As(err, &r) || r.err != nil
}

// leaveOut adds a refused object to Info.LeftOut. It does not modify the old slice, which readers share.
func leaveOut(i *entry.Info, l entry.LeftOut) {
	at, found := findLeftOut(i, l.Key)
	switch {
	case l.Key == "" || !found && len(i.LeftOut) >= entry.MaxLeftOut:
		i.LeftOutMore = true
	case found:
		i.LeftOut = slices.Clone(i.LeftOut)
		i.LeftOut[at] = l
	default:
		i.LeftOut = slices.Insert(slices.Clip(i.LeftOut), at, l)
	}
}

// removeLeftOut removes an object from Info.LeftOut. It does not modify the old slice, which readers share.
func removeLeftOut(i *entry.Info, key string) {
	if at, found := findLeftOut(i, key); found {
		i.LeftOut = slices.Concat(i.LeftOut[:at], i.LeftOut[at+1:])
	}
}

func findLeftOut(i *entry.Info, key string) (at int, found bool) {
	return slices.BinarySearchFunc(i.LeftOut, key,
		func(l entry.LeftOut, key string) int { return strings.Compare(l.Key, key) })
}

func mayLack(i *entry.Info, key string) bool {
	_, found := findLeftOut(i, key)
	return found || i.LeftOutMore
}

// noteBatch removes the objects that a batch wrote from Info.LeftOut, the list of refused objects, and adds the objects
// that it left out. It removes the latter from Newest: the server has newer states of them, so the rewind check would
// report a rewind.
func noteBatch(i *entry.Info, last []*Write, e encoded) {
	for _, x := range last {
		removeLeftOut(i, x.Key)
	}
	for _, l := range e.leftOut {
		leaveOut(i, l)
		if l.Key != "" {
			i.Newest = slices.DeleteFunc(slices.Clone(i.Newest), func(r entry.ObjectRef) bool { return r.Key == l.Key })
		}
	}
}

// refused collects the objects that a list has left out because they could not be stored.
type refused struct {
	objects map[string]entry.LeftOut // objects are the refused objects, by key.
	gone    map[string]string        // gone has the resourceVersions of the delete events during the list, by key.
	unkeyed bool                     // unkeyed is true if an object without a key was left out.
}

func (r *refused) leaveOut(l entry.LeftOut) {
	if l.Key == "" {
		r.unkeyed = true
		return
	}
	if r.objects == nil {
		r.objects = map[string]entry.LeftOut{}
	}
	if have, ok := r.objects[l.Key]; !ok || !entry.NewerRV(have.ResourceVersion, l.ResourceVersion) {
		r.objects[l.Key] = l
	}
}

func (r *refused) isLeftOut(key, rv string) bool {
	l, ok := r.objects[key]
	return ok && l.ResourceVersion == rv
}

func (r *refused) noteGone(x *Write) {
	if r.gone == nil {
		r.gone = map[string]string{}
	}
	r.gone[x.Key] = x.RV
}

// finish sets LeftOut to the objects that a complete list left out. held returns the final state of an object, and
// finish fails if held does. A list that does not rewrite keeps an older entry if the stored object is still in the
// very state that was left out, since the list has not tried to store that state.
func (r *refused) finish(
	info *entry.Info, rewrites bool, held func(key string) (ref entry.ObjectRef, found bool, err error),
) error {
	before, more := info.LeftOut, info.LeftOutMore && !rewrites
	info.LeftOut, info.LeftOutMore = nil, more || r.unkeyed
	if !rewrites {
		for _, l := range before {
			if ref, found, err := held(l.Key); err != nil {
				return err
			} else if found && ref == l.ObjectRef {
				leaveOut(info, l)
			}
		}
	}
	for _, l := range r.objects {
		ref, found, err := held(l.Key)
		rv, gone := r.gone[l.Key]
		switch {
		case err != nil:
			return err
		case found && entry.NewerRV(ref.ResourceVersion, l.ResourceVersion), !found && gone &&
			entry.NewerRV(rv, l.ResourceVersion):
		case found && !rewrites && ref == l.ObjectRef: // An event has stored the refused state.
		default:
			leaveOut(info, l)
		}
	}
	return nil
}
