package mapper

import "errors"

// ErrUnreachable: the kind or resource is unknown, and the API server could not be asked whether it exists. Try again
// later.
var ErrUnreachable = errors.New("the API server cannot be asked for its resources")
