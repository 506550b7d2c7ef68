package informer

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/larder-dev/larder/reflector"
)

// health holds the parts of Status about the store and about changes that would go unnoticed. Safe for concurrent use.
type health struct {
	mu        sync.Mutex
	storeErr  error             // guarded by mu; why the store cannot be written; nil while it can
	commitErr error             // guarded by mu; why dirty changes cannot be committed; nil while they can
	rewriting reflector.Reason  // guarded by mu; why a list must rewrite all stored objects; "" if none must
	unguarded map[string]string // guarded by mu; never nil; the reason for each change that would go unnoticed
	// distrusts is true once an object could not be decoded, in this run or an earlier one.
	distrusts atomic.Bool
}

func (h *health) distrustsNow() bool { return h.distrusts.Load() }

// errs returns why the store cannot be written and why dirty changes cannot be committed; nil if they can.
func (h *health) errs() (store, commit error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.storeErr, h.commitErr
}

func (h *health) setStoreErr(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.storeErr = err
}

// setCommitErr sets commitErr and returns its previous value.
func (h *health) setCommitErr(err error) (before error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, h.commitErr = h.commitErr, err
	return before
}

func (h *health) rewritingNow() reflector.Reason {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rewriting
}

func (h *health) setRewriting(r reflector.Reason) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rewriting = r
}

// setUnguarded records why a change would go unnoticed. err is the reason; a nil err deletes the record. It returns
// true if the change has a reason now and had none before.
func (h *health) setUnguarded(change string, err error) (isNew bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.unguarded, change)
		return false
	}
	_, known := h.unguarded[change]
	h.unguarded[change] = err.Error()
	return !known
}

// unguardedNow returns a sentence for each recorded change that would go unnoticed, for Status.Unguarded. The sentences
// that derive from the reflector's status are not included.
func (h *health) unguardedNow() (sentences []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, change := range slices.Sorted(maps.Keys(h.unguarded)) {
		sentences = append(sentences, change+": "+h.unguarded[change])
	}
	return sentences
}
