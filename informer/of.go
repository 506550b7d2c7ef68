package informer

import (
	"errors"
	"fmt"

	"k8s.io/client-go/tools/cache"
)

// ErrForeign is returned by Of for an informer that is not Larder's.
var ErrForeign = errors.New("the informer is not one of Larder's")

// Of returns the Informer that inf is or wraps; typed factories return client-go's wrappers. For an informer of Refused
// it returns that error, and for any other informer ErrForeign.
func Of(inf cache.SharedIndexInformer) (*Informer, error) {
	if inf != nil {
		// Wrappers forward GetController to the informer that they wrap.
		switch c := inf.GetController().(type) {
		case controller:
			return c.i, nil
		case *refused:
			return nil, c.err
		}
	}
	return nil, fmt.Errorf("%w: it is a %T", ErrForeign, inf)
}
