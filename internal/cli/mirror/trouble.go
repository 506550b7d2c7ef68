package mirror

import (
	"errors"
	"fmt"
	"net"
	"net/url"
)

// troubleOf says of a server that does not answer no more than that, and why. While it is away one resource tries and
// the others wait for that, in turns: what they say of it would never stay the same. It is empty for other errors.
func troubleOf(err error) string {
	var request *url.Error
	if !errors.As(err, &request) {
		return ""
	}
	cause := request.Err
	var op *net.OpError
	if errors.As(cause, &op) { // without our own port, another one at each try
		there := *op
		there.Source = nil
		cause = &there
	}
	return fmt.Sprintf("the API server does not answer: %v", cause)
}
