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

// Paths of requests. prefix has the protocol's version: a process with another version returns 404.
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

	// paramQuery is the query parameter with the request in JSON.
	paramQuery = "q"
	// trailerEnd is the trailer of a stream, with a failure in JSON. maxTrailer is its maximum size in bytes: 20 lines
	// of an UnreadableError with the longest keys.
	trailerEnd = "Larder-End"
	maxTrailer = 1 << 20
)

// failure is an error in the protocol: the body of a response other than 200, or the trailer of a stream. The zero
// value is success.
type failure struct {
	Error string `json:"error,omitempty"`
	// Code is the kind of the error, if the client must know it; see codes.
	Code string `json:"code,omitempty"`
	// Since and Unreadable are the error itself if it has that type.
	Since      *consumer.SinceError `json:"since,omitempty"`
	Unreadable *UnreadableError     `json:"unreadable,omitempty"`
}

// ErrOtherVersion: this program and the sync that holds the store have incompatible versions of Larder.
var ErrOtherVersion = errors.New("another version of larder")

// codes are the error kinds of the protocol. No error matches two of them.
var codes = map[string]error{
	"noCollection": ErrNoCollection, "notLive": ErrNotLive, "slow": ErrSlow, "stopping": ErrStopping,
	"notKept": consumer.ErrNotKept, "damaged": entry.ErrDamaged, "sealed": seal.ErrSealed,
	"noSpace": store.ErrNoSpace, "incompatible": entry.ErrIncompatible, codeOtherVersion: ErrOtherVersion,
}

// newFailure returns the failure of an error; the zero value for nil.
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

// err returns the error of a failure; nil for the zero value.
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

// codeOtherVersion is the code of ErrOtherVersion.
const codeOtherVersion = "otherVersion"

// unknownPath returns the failure for a path of another protocol version.
func unknownPath(sync Sync, r *http.Request) failure {
	client, isLarder := strings.CutPrefix(r.UserAgent(), agent)
	if !isLarder {
		client = "of another version"
	}
	return failure{Code: codeOtherVersion, Error: fmt.Sprintf("the sync that holds the store is larder %s, and has no %s "+
		"for larder %s: run both of one version", sync.Version, r.URL.Path, client)}
}

// wireError is an error of the sync. Its message already contains the text of is.
type wireError struct {
	message string
	is      error
}

// OfSync reports whether err occurred in the sync that holds the store, not in this process.
func OfSync(err error) bool { return errors.As(err, new(*wireError)) }

func (e *wireError) Error() string { return e.message }
func (e *wireError) Unwrap() error { return e.is }
