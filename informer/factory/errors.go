package factory

import "errors"

// ErrOptions: an option is set that cannot hold for every informer of a factory, or is missing, or the listed types or
// the selectors cannot be used. NewSharedInformerFactory returns it, and in the dynamic and metadata factories
// whatever ForResource returns fails with it.
var ErrOptions = errors.New("the options cannot be used for a factory")
