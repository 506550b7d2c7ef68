package informer

import (
	"maps"
	"slices"
	"sync"

	"github.com/larder-dev/larder/reflector"
)

// health is what Status says of the store and of the guards. Any goroutine may read and write it.
type health struct {
	mu        sync.Mutex
	storeErr  error             // guarded by mu; why the store cannot be written, nil while it can
	commitErr error             // guarded by mu; why what is pending cannot be committed, nil while it can
	rewriting reflector.Reason  // guarded by mu; why every body is to be written anew, empty if it is not
	unguarded map[string]string // guarded by mu; why a change of the server would not be noticed, by change
}

// errs returns the errors of the store and of its commits.
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

// setCommitErr returns the error before.
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

// setUnguarded notes that a change would not be noticed, or, without an error, that it would be. It reports whether it
// is new that it would not.
func (h *health) setUnguarded(change string, err error) (isNew bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, known := h.unguarded[change]
	if err == nil {
		delete(h.unguarded, change)
		return false
	}
	h.unguarded[change] = err.Error()
	return !known
}

// unguardedNow is Status.Unguarded as far as the options and the server's answers tell.
func (h *health) unguardedNow() (sentences []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, change := range slices.Sorted(maps.Keys(h.unguarded)) {
		sentences = append(sentences, change+": "+h.unguarded[change])
	}
	return sentences
}
