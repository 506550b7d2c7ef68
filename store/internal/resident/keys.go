package resident

import (
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
)

// KeyMap finds the rows of a table by key. Reads of keys that have been there for a while take no lock and share no
// counter, so they scale with the cores. One goroutine writes at a time.
type KeyMap struct {
	// base has the same rows for ever. One of them that has no state is of a key that was removed. It is set, and its
	// objects are, with mu held.
	base    atomic.Pointer[slots]
	amended atomic.Bool  // there are fresh keys
	missed  atomic.Int64 // reads that found a fresh key, since base was made
	filling bool         // nobody reads by key yet, so all keys stay fresh; guarded by mu

	mu      sync.RWMutex
	fresh   map[string]*row // the keys that base lacks; guarded by mu
	between func()          // for tests: called between load's two looks
	gone    int             // about how many rows of base have no state; guarded by mu
}

// freshFew is how many fresh, or removed, keys are no reason to make base anew.
const freshFew = 256

func newKeyMap() *KeyMap {
	k := &KeyMap{fresh: map[string]*row{}}
	k.base.Store(newSlots(0))
	return k
}

// Seen returns the object of key if that has been there for a while, or nil.
func (k *KeyMap) Seen(key string) any {
	if e := k.base.Load().find(key); e != nil {
		return e.object()
	}
	return nil
}

// Object returns the object of key, or nil. It takes no lock, and is what every read by key that takes none goes by:
// one that went by the state could find an older one than the read before it.
func (k *KeyMap) Object(key string) runtime.Object {
	if obj := k.Seen(key); obj != nil {
		return obj.(runtime.Object)
	}
	return k.State(key).Object()
}

// State returns the state of key, or nil.
func (k *KeyMap) State(key string) *State {
	if e := k.load(key); e != nil {
		return e.now.Load()
	}
	return nil
}

// load returns the row of key, or nil. Its state may be nil: the key has been removed.
func (k *KeyMap) load(key string) *row {
	for {
		base := k.base.Load()
		e := base.find(key)
		if e == nil && k.between != nil {
			k.between()
		}
		switch {
		case e != nil:
			return e.row
		case k.amended.Load():
			return k.loadFresh(key)
		case k.base.Load() == base: // else it may have been fresh, and be in the new base
			return nil
		}
	}
}

// loadFresh also makes base anew, once so many fresh keys have been read that it would have paid.
func (k *KeyMap) loadFresh(key string) *row {
	k.mu.RLock()
	e, base := k.fresh[key], k.base.Load() // it may have been moved there before the lock was taken
	k.mu.RUnlock()
	if e == nil {
		if found := base.find(key); found != nil {
			return found.row
		}
		return nil
	}
	if k.missed.Add(1) >= int64(base.rows+freshFew) {
		k.settle()
	}
	return e
}

// add puts in a row whose key load does not find.
func (k *KeyMap) add(e *row) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.addLocked(e)
}

func (k *KeyMap) addLocked(e *row) {
	k.fresh[e.key] = e
	k.amended.Store(true)
	if n := len(k.fresh); n > freshFew && n > k.base.Load().rows/4 && !k.filling {
		k.settleLocked()
	}
}

// remove takes the state of a row, and with it its key. It returns nil if there was none.
func (k *KeyMap) remove(e *row) *State {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.slot != nil {
		e.slot.drop()
	}
	old := e.now.Swap(nil)
	if k.fresh[e.key] == e {
		delete(k.fresh, e.key)
	} else if k.gone++; old != nil && k.gone > freshFew && k.gone > k.base.Load().rows/4 {
		k.settleLocked()
	}
	return old
}

// update gives a row that has a state the next one.
func (k *KeyMap) update(e *row, s *State) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.slot != nil {
		e.slot.set(s.Obj)
	}
	e.now.Store(s)
}

// revive gives a row that load has found without a state a new one.
func (k *KeyMap) revive(e *row, s *State) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e.now.Store(s)
	if e.slot != nil {
		k.gone--
	} else { // a base was made without it meanwhile
		k.addLocked(e)
	}
}

// fill keeps all keys that come now fresh, until settle.
func (k *KeyMap) fill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.filling = true
}

// settle makes a base of all rows that have a state.
func (k *KeyMap) settle() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.filling = false
	k.settleLocked()
}

func (k *KeyMap) settleLocked() {
	var live []*row
	old := k.base.Load()
	for i := range old.all {
		switch e := old.all[i].row; {
		case e == nil:
		case e.now.Load() != nil:
			live = append(live, e)
		default:
			e.slot = nil
		}
	}
	base := newSlots(len(live) + len(k.fresh))
	for _, e := range live {
		base.add(e)
	}
	for _, e := range k.fresh {
		base.add(e)
	}
	k.setBaseLocked(base)
}

// setBaseLocked lets nobody find another key in fresh.
func (k *KeyMap) setBaseLocked(base *slots) {
	k.base.Store(base) // before amended, for load
	k.fresh, k.gone = map[string]*row{}, 0
	k.missed.Store(0)
	k.amended.Store(false)
}
