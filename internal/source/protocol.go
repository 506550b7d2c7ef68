package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/larder-dev/larder/store"
)

// The protocol's paths.
const (
	pathPing     = "/v1/ping"
	pathStatus   = "/v1/status"
	pathCheck    = "/v1/check"
	pathObjects  = "/v1/objects"
	pathCompact  = "/v1/compact"
	pathAudit    = "/v1/audit"
	pathWatch    = "/v1/watch"
	pathSnapshot = "/v1/snapshot"
	pathRekey    = "/v1/rekey"
)

// line is one line of an answer to pathObjects; exactly one field is set.
type line struct {
	Object     json.RawMessage  `json:"object,omitempty"`
	Unreadable *UnreadableError `json:"unreadable,omitempty"`
	Error      string           `json:"error,omitempty"`
	// End is the number of objects sent.
	End *int `json:"end,omitempty"`
}

// errorBody is the body of an answer other than 200.
type errorBody struct {
	Error string `json:"error"`
	// Code is the kind of the error, if the client is to know it; see codes. Since is that of codeSince.
	Code  string            `json:"code,omitempty"`
	Since *store.SinceError `json:"since,omitempty"`
}

// Names of Query's fields in the URL.
const (
	paramCollection = "collection"
	paramNamespace  = "namespace"
	paramName       = "name"
	paramSelector   = "selector"
	paramFields     = "fields"
	paramHead       = "head"
	paramNames      = "names"
)

func (q Query) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{
		paramCollection: q.Collection, paramNamespace: q.Namespace, paramName: q.Name, paramSelector: q.Selector,
		paramFields: q.Fields,
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.HeadOnly {
		v.Set(paramHead, "true")
	}
	if q.NameOnly {
		v.Set(paramNames, "true")
	}
	return v
}

func queryOf(v url.Values) Query {
	return Query{
		Collection: v.Get(paramCollection), Namespace: v.Get(paramNamespace), Name: v.Get(paramName),
		Selector: v.Get(paramSelector), Fields: v.Get(paramFields), HeadOnly: v.Get(paramHead) == "true",
		NameOnly: v.Get(paramNames) == "true",
	}
}

// statusOf maps an error to the answer's code, so that the client can map it back.
func statusOf(err error) int {
	if errors.Is(err, ErrNoCollection) {
		return http.StatusNotFound
	}
	return http.StatusInternalServerError
}

// remoteError turns an answer other than 200 back into an error.
func remoteError(code int, body errorBody) error {
	if body.Error == "" && code == http.StatusNotFound {
		return errors.New("the running sync does not know the request: it is another version of larder")
	}
	if body.Error == "" {
		body.Error = "HTTP status " + http.StatusText(code)
	}
	if err := body.known(); err != nil {
		return err
	}
	if code == http.StatusNotFound {
		return &wireError{message: body.Error, is: ErrNoCollection}
	}
	return fmt.Errorf("the running sync answers: %s", body.Error)
}

// wireError has a message that already contains the text of is.
type wireError struct {
	message string
	is      error
}

// OfSync reports whether err is one that the sync which holds the store has met, and not this process.
func OfSync(err error) bool { return errors.As(err, new(*wireError)) }

func (e *wireError) Error() string { return e.message }
func (e *wireError) Unwrap() error { return e.is }
