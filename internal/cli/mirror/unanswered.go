package mirror

import (
	"errors"
	"fmt"
	"net"
	"net/url"
)

// unansweredText returns one text for all errors of a server that does not respond; "" for other errors. While the
// server is away, the collections retry in turn, so their own errors keep changing.
func unansweredText(err error) string {
	var request *url.Error
	if !errors.As(err, &request) {
		return ""
	}
	cause := request.Err
	var op *net.OpError
	if errors.As(cause, &op) { // the local port differs at each attempt
		there := *op
		there.Source = nil
		cause = &there
	}
	return fmt.Sprintf("the API server does not answer: %v", cause)
}
