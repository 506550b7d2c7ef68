package factory

import "errors"

// ErrOptions: an option is missing, or cannot hold for every informer of a factory, or the listed types or the
// selectors cannot be used. NewSharedInformerFactory returns it. In the dynamic and metadata factories everything that
// ForResource returns fails with it.
var ErrOptions = errors.New("the options cannot be used for a factory")
