package controllerruntime

import "errors"

// Errors of NewCache's function.
var (
	// ErrOptions: an option is set that cannot be honoured for every informer of a cache, or is missing.
	ErrOptions = errors.New("the options cannot be used for a cache")
)

// Errors of GetInformer, and of the first Get or List of a kind.
var (
	// ErrIdentity: what an informer would list cannot be told from the request that it would send, or is not of one kind.
	// It is refused, since two scopes in one collection would serve each other's objects.
	ErrIdentity = errors.New("what the informer lists cannot be established")
)
