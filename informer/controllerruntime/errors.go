package controllerruntime

import "errors"

// Errors of the function that NewCache returns.
var (
	// ErrOptions: an option cannot hold for every informer of a cache, or a required option is missing.
	ErrOptions = errors.New("the options cannot be used for a cache")
)

// Errors of GetInformer, and of the first Get or List of a kind.
var (
	// ErrIdentity: the collection cannot be derived from the informer's list request. No informer is made: two
	// informers with different selectors or namespaces in one collection would serve each other's objects.
	ErrIdentity = errors.New("what the informer lists cannot be established")
)
