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
	mu        sync.Mutex        // mu guards storeErr, commitErr, rewriting and unguarded
	storeErr  error             // storeErr is why the store cannot be written
	commitErr error             // commitErr is why dirty changes cannot be committed
	rewriting reflector.Reason  // rewriting is why a list must rewrite all stored objects; "" if none must
	unguarded map[string]string // unguarded is never nil, and has the reason for each change that would go unnoticed
	// distrusts is true once an object could not be decoded, in this run or an earlier one.
	distrusts atomic.Bool
}

func (h *health) distrustsNow() bool { return h.distrusts.Load() }

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

// setUnguarded sets err as the reason why a change of the server or the transform would go unnoticed; a nil err deletes
// the reason. It returns true if the change has a reason now and had none before.
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

// unguardedNow returns the sentences of Status.Unguarded, without those that derive from the reflector's status.
func (h *health) unguardedNow() (sentences []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, change := range slices.Sorted(maps.Keys(h.unguarded)) {
		sentences = append(sentences, change+": "+h.unguarded[change])
	}
	return sentences
}
