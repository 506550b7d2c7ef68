package source

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/seal"
)

// The protocol's paths.
const (
	pathPing     = "/v1/ping"
	pathStatus   = "/v1/status"
	pathCheck    = "/v1/check"
	pathEntries  = "/v1/entries"
	pathCompact  = "/v1/compact"
	pathAudit    = "/v1/audit"
	pathWatch    = "/v1/watch"
	pathLog      = "/v1/log"
	pathSnapshot = "/v1/snapshot"
	pathRekey    = "/v1/rekey"
)

// frame is one message of a streamed answer. One field is set, and End or Failure in the last frame.
type frame struct {
	Entry *entry.Entry
	Event *Event
	// Logged is one that has changed.
	Logged *Logged
	// Data is a part of a snapshot.
	Data []byte
	// Beat says that the sync is there, when there is nothing else to say.
	Beat    bool
	End     *ending
	Failure *errorBody
}

// ending is the end of a whole answer.
type ending struct {
	// Entries is the number of entries, or of Logged, sent.
	Entries int
	// Unreadable is what could not be read; nil if all could.
	Unreadable *UnreadableError
	// From is what Logger.Log returns.
	From time.Time
}

// errorBody is the body of an answer other than 200.
type errorBody struct {
	Error string `json:"error"`
	// Code is the kind of the error, if the client is to know it; see codes. Since is that of codeSince.
	Code  string               `json:"code,omitempty"`
	Since *consumer.SinceError `json:"since,omitempty"`
}

// Names of the fields of Query and WatchQuery in the URL.
const (
	paramCollection = "collection"
	paramNamespace  = "namespace"
	paramName       = "name"
	paramSelector   = "selector"
	paramFields     = "fields"
	paramKeys       = "keys"
	paramList       = "list"
	paramOmit       = "omitManagedFields"
	paramSince      = "since"
	paramAfter      = "after"
	paramNewest     = "newest"
	// paramKey is the id of the key to seal with.
	paramKey = "key"
)

func (q WatchQuery) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{
		paramCollection: q.Collection, paramNamespace: q.Namespace, paramName: q.Name, paramSelector: q.Selector,
		paramFields: q.Fields, paramKeys: strconv.FormatBool(q.KeysOnly), paramList: strconv.FormatBool(q.List),
		paramOmit: strconv.FormatBool(q.OmitManagedFields),
	} {
		v.Set(name, value)
	}
	if q.Since != nil {
		v.Set(paramSince, strconv.FormatUint(*q.Since, 10))
	}
	return v
}

func queryOf(v url.Values) (WatchQuery, error) {
	q := WatchQuery{List: v.Get(paramList) == "true", Query: Query{
		Collection: v.Get(paramCollection), Namespace: v.Get(paramNamespace), Name: v.Get(paramName),
		Selector: v.Get(paramSelector), Fields: v.Get(paramFields), KeysOnly: v.Get(paramKeys) == "true",
		OmitManagedFields: v.Get(paramOmit) == "true",
	}}
	if s := v.Get(paramSince); s != "" {
		since, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return q, err
		}
		q.Since = &since
	}
	return q, nil
}

// codes are the errors as they are sent. No error is two of them.
var codes = map[string]error{
	"noCollection": ErrNoCollection, "notLive": ErrNotLive, "slow": ErrSlow, "stopping": ErrStopping,
	"notKept": consumer.ErrNotKept, "damaged": entry.ErrDamaged, "sealed": seal.ErrSealed,
	"noSpace": store.ErrNoSpace, "incompatible": entry.ErrIncompatible,
}

// codeSince is that of a *consumer.SinceError.
const codeSince = "since"

// newErrorBody returns an error as it is sent.
func newErrorBody(err error) *errorBody {
	b := &errorBody{Error: err.Error()}
	if errors.As(err, &b.Since) {
		b.Code = codeSince
		return b
	}
	for code, is := range codes {
		if errors.Is(err, is) {
			b.Code = code
		}
	}
	return b
}

// err returns the error that was sent.
func (b errorBody) err() error {
	switch is := codes[b.Code]; {
	case b.Code == codeSince && b.Since != nil:
		return &wireError{message: b.Error, is: b.Since}
	case is != nil:
		return &wireError{message: b.Error, is: is}
	}
	return fmt.Errorf("the running sync answers: %s", b.Error)
}

// remoteError is the error of an answer other than 200.
func remoteError(status int, body errorBody) error {
	switch {
	case body.Error != "":
		return body.err()
	case status == http.StatusNotFound:
		return errors.New("the running sync does not know the request: it is another version of larder")
	}
	return errorBody{Error: "HTTP status " + http.StatusText(status)}.err()
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
