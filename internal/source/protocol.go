package source

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/seal"
)

// The paths. prefix has the version of the protocol: a process with another one answers 404.
const (
	prefix       = "/larder/v2/"
	pathSync     = prefix + "sync"
	pathStatus   = prefix + "status"
	pathCheck    = prefix + "check"
	pathCompact  = prefix + "compact"
	pathRekey    = prefix + "rekey"
	pathAudit    = prefix + "audit"
	pathRecords  = prefix + "records"
	pathWatch    = prefix + "watch"
	pathChanges  = prefix + "changes"
	pathSnapshot = prefix + "snapshot"

	// paramQuery is the parameter that has what is asked for, in JSON.
	paramQuery = "q"
	// trailerEnd is the trailer of a stream that has how it ended: a failure in JSON. maxTrailer is its size at most, in
	// bytes: 20 lines of an UnreadableError with the longest keys.
	trailerEnd = "Larder-End"
	maxTrailer = 1 << 20
)

// failure is an error as it is sent: the body of an answer other than 200, and the trailer of a stream. The zero value
// is no error.
type failure struct {
	Error string `json:"error,omitempty"`
	// Code is the kind of the error, if the client has to know it; see codes.
	Code string `json:"code,omitempty"`
	// Since and Unreadable are the error itself if it is one of these.
	Since      *consumer.SinceError `json:"since,omitempty"`
	Unreadable *UnreadableError     `json:"unreadable,omitempty"`
}

// ErrOtherVersion: the sync that holds the store and this program are of different versions of Larder, which do not
// understand each other.
var ErrOtherVersion = errors.New("another version of larder")

// codes are the errors as they are sent. No error is two of them.
var codes = map[string]error{
	"noCollection": ErrNoCollection, "notLive": ErrNotLive, "slow": ErrSlow, "stopping": ErrStopping,
	"notKept": consumer.ErrNotKept, "damaged": entry.ErrDamaged, "sealed": seal.ErrSealed,
	"noSpace": store.ErrNoSpace, "incompatible": entry.ErrIncompatible, codeOtherVersion: ErrOtherVersion,
}

// newFailure returns an error as it is sent; nil is the zero value.
func newFailure(err error) (f failure) {
	switch {
	case err == nil, errors.As(err, &f.Unreadable):
		return f
	case errors.As(err, &f.Since):
	default:
		for code, is := range codes {
			if errors.Is(err, is) {
				f.Code = code
			}
		}
	}
	f.Error = err.Error()
	return f
}

// err returns the error that was sent, or nil.
func (f failure) err() error {
	is := codes[f.Code]
	if f.Since != nil {
		is = f.Since
	}
	switch {
	case f.Unreadable != nil:
		return f.Unreadable
	case is != nil:
		return &wireError{message: f.Error, is: is}
	case f.Error != "":
		return fmt.Errorf("the running sync answers: %s", f.Error)
	}
	return nil
}

// codeOtherVersion is that of ErrOtherVersion.
const codeOtherVersion = "otherVersion"

// unknownPath is the answer to a path of another version of the protocol.
func unknownPath(sync Sync, r *http.Request) failure {
	client, isLarder := strings.CutPrefix(r.UserAgent(), agent)
	if !isLarder {
		client = "of another version"
	}
	return failure{Code: codeOtherVersion, Error: fmt.Sprintf("the sync that holds the store is larder %s, and has no %s "+
		"for larder %s: run both of one version", sync.Version, r.URL.Path, client)}
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
