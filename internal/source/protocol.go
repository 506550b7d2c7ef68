package source

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/seal"
)

// The paths of the requests on the socket begin with the version of the protocol: a process with another version
// returns 404.
const (
	prefix       = "/larder/v3/"
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

	// paramQuery is the URL parameter with the request's query in JSON.
	paramQuery = "q"
	// trailerEnd is the HTTP trailer that ends a response, with the error of the request in JSON. maxTrailer is the
	// maximum size of that trailer in bytes. It fits 20 lines of an UnreadableError with the longest keys.
	trailerEnd = "Larder-End"
	maxTrailer = 1 << 20
)

// failure is an error as sent over the socket: in the trailer of a response, or in the body of a 404. The zero value
// means success.
type failure struct {
	Error string `json:"error,omitempty"`
	// Code is a key of the map codes. It is empty if the client need not know the kind of the error.
	Code string `json:"code,omitempty"`
	// Since and Unreadable are the error itself, if it is a SinceError or an UnreadableError.
	Since      *consumer.SinceError `json:"since,omitempty"`
	Unreadable *UnreadableError     `json:"unreadable,omitempty"`
}

// ErrOtherVersion says that this program and the larder sync that holds the store have incompatible versions of the
// protocol.
var ErrOtherVersion = errors.New("another version of larder")

// codes are the kinds of errors that a client must recognize, by their code in the protocol. No error is of two kinds.
var codes = map[string]error{
	"noCollection": ErrNoCollection, "notLive": ErrNotLive, "slow": ErrSlow, "stopping": ErrStopping,
	"notKept": consumer.ErrNotKept, "damaged": entry.ErrDamaged, "sealed": seal.ErrSealed,
	"noSpace": store.ErrNoSpace, "incompatible": entry.ErrIncompatible, "otherVersion": ErrOtherVersion,
}

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

// unknownPath returns the failure for a path that this version of the protocol does not have.
func unknownPath(sync Sync, r *http.Request) failure {
	client, isLarder := strings.CutPrefix(r.UserAgent(), agent)
	if !isLarder {
		client = "of another version"
	}
	return newFailure(&wireError{is: ErrOtherVersion, message: fmt.Sprintf("the sync that holds the store is larder %s, "+
		"and has no %s for larder %s: run both of one version", sync.Version, r.URL.Path, client)})
}

// wireError is an error that the larder sync has sent. Its message already contains the text of is, the error's kind.
type wireError struct {
	message string
	is      error
}

// OfSync reports whether err occurred in the larder sync that sent it over the socket, not in this process.
func OfSync(err error) bool { return errors.As(err, new(*wireError)) }

func (e *wireError) Error() string { return e.message }
func (e *wireError) Unwrap() error { return e.is }

// Version returns the version of this program, or else the commit from which the program was built.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+changes"
			}
		}
	}
	if revision == "" {
		return "(devel)"
	}
	return "devel-" + revision + dirty
}

// Audited is the result of comparing one stored collection with the objects on the API server.
type Audited struct {
	Collection     string `json:"collection"`
	Resource       string `json:"resource"`
	Scope          string `json:"scope,omitempty"`
	Representation string `json:"representation"`
	// Objects is the number of the collection's objects on the API server.
	Objects int `json:"objects"`
	// Differ is the number of stored objects that differed from those on the API server, and Keys has up to ten of their
	// keys. Listed says that the comparison listed all objects.
	Differ int      `json:"differ"`
	Keys   []string `json:"keys"`
	Listed bool     `json:"listed,omitempty"`
	// Error is why the comparison was not completed; empty after a complete comparison.
	Error string `json:"error,omitempty"`
}
