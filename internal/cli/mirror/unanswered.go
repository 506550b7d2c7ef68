package mirror

import (
	"errors"
	"fmt"
	"net"
	"net/url"
)

// unansweredText returns one stable text for all errors of a server that does not respond; "" for other errors. While
// the server is away, resources take turns at retrying it, so their own errors would keep changing.
func unansweredText(err error) string {
	var request *url.Error
	if !errors.As(err, &request) {
		return ""
	}
	cause := request.Err
	var op *net.OpError
	if errors.As(cause, &op) { // without the local port, which differs at each try
		there := *op
		there.Source = nil
		cause = &there
	}
	return fmt.Sprintf("the API server does not answer: %v", cause)
}
