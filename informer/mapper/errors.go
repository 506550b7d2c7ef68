package mapper

import "errors"

// ErrUnreachable: what is known does not have the kind or resource, and the API server could not be asked whether it
// has. Try again later.
var ErrUnreachable = errors.New("the API server cannot be asked for its resources")
