package access

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/internal/connlimit"
)

// HandlerOptions are the options of NewHandler.
type HandlerOptions struct {
	// Authenticator determines the user of a request. Default: all requests are rejected.
	Authenticator Authenticator
	// Limits limit the number, size and duration of requests. Default: the defaults of the type Limits.
	Limits Limits
	// Logger receives, at verbosity 2, the reasons why credentials are rejected. Default: klog.Background().
	Logger *logr.Logger
}

// NewHandler returns a handler that passes authenticated requests to next, within limits. It answers all other requests
// with a Status: 401 for an unknown user, 403 for impersonation, 413 for a body that is too large, 429 beyond a limit,
// and 503 if the API server that authenticates is unreachable. If an address has more than 240 unauthenticated requests
// within a minute, each further 401 is delayed by a second.
//
// next gets the user with UserFrom, asks an Authorizer about the user's rights (Require), and calls LongRunning before
// it answers a watch. The context of other requests ends after Limits.RequestTime; context.Cause then returns the
// Status to answer with.
func NewHandler(next http.Handler, o HandlerOptions) http.Handler {
	if o.Authenticator == nil {
		o.Authenticator = Union()
	}
	h := &handler{next: next, authenticator: o.Authenticator, refusals: newPerAddress(), log: loggerOr(o.Logger)}
	h.counter = counter{limits: o.Limits.WithDefaults(), users: map[string]count{}}
	return h
}

type handler struct {
	next          http.Handler
	authenticator Authenticator
	refusals      perAddress
	log           logr.Logger
	counter       counter
}

// request is the state of a request that NewHandler's handler keeps in the request's context.
type request struct {
	user    User
	counter *counter
	control *http.ResponseController
	// timer cancels the request's context after Limits.RequestTime.
	timer *time.Timer
	watch bool
}

type requestKey struct{}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	own := &request{counter: &h.counter, control: http.NewResponseController(w)}
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), requestKey{}, own))
	defer cancel(nil)
	own.start(cancel)
	defer own.timer.Stop()
	r = r.WithContext(ctx)
	err := h.admit(r, own)
	connlimit.Authenticated(ctx, own.user.Username != "")
	if err != nil {
		if own.user.Username == "" {
			h.refusals.delay(r)
		}
		DropBody(w, r)
		WriteError(w, r, err)
		return
	}
	if !h.counter.begin(own.user.Username) {
		DropBody(w, r)
		WriteError(w, r, tooManyRequests("Too many requests, please try again later."))
		return
	}
	defer own.end()
	own.bound(w, r)
	h.next.ServeHTTP(w, r)
}

// admit authenticates a request, and rejects large bodies and impersonation. It runs before the request is counted, so
// unauthenticated requests do not count against Limits.Requests.
func (h *handler) admit(r *http.Request, own *request) (err error) {
	if r.ContentLength > h.counter.limits.Body {
		return apierrors.NewRequestEntityTooLargeError("the request's body is too large")
	}
	if err := moveSocketToken(r); err != nil {
		h.log.V(2).Info("Refusing a request's credentials", "client", r.RemoteAddr, "reason", err.Error())
		return apierrors.NewUnauthorized("Unauthorized")
	}
	if own.user, err = h.authenticate(r); err != nil {
		return err
	}
	if err := refuseImpersonation(r, own.user); err != nil {
		return err
	}
	for name := range r.Header { // clients could forge these headers of an authenticating proxy
		if strings.HasPrefix(name, "X-Remote-") {
			r.Header.Del(name)
		}
	}
	return nil
}

// DropBody makes the server close the connection after the response, without reading the rest of the request's body. A
// handler calls DropBody before it responds to a request whose body it does not read.
func DropBody(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // test recorders do not support deadlines
}

// writeGrace is the time, after RequestTime, for writing the Status that reports the timeout.
const writeGrace = 5 * time.Second

func (q *request) start(cancel context.CancelCauseFunc) {
	limit := q.counter.limits.RequestTime
	q.timer = time.AfterFunc(limit, func() {
		cancel(q.late())
	})
	_ = q.control.SetWriteDeadline(time.Now().Add(limit + writeGrace)) // test recorders do not support deadlines
}

// bound limits the size of an authenticated request's body. It also replaces the read deadline of the connection, which
// is shorter as long as a request is not authenticated.
func (q *request) bound(w http.ResponseWriter, r *http.Request) {
	limit := q.counter.limits.RequestTime
	if r.Body == nil || r.Body == http.NoBody {
		// net/http reads from the connection to detect a disconnect. A read deadline would end that read, and with it
		// the request, before the Status of the timeout is written.
		limit += writeGrace
	} else {
		r.Body = http.MaxBytesReader(w, r.Body, q.counter.limits.Body)
	}
	_ = q.control.SetReadDeadline(time.Now().Add(limit))
}

func (q *request) late() error {
	return apierrors.NewTimeoutError("the request took longer than "+q.counter.limits.RequestTime.String(), 1)
}

func (q *request) end() {
	if q.watch {
		q.counter.endWatch(q.user.Username)
	} else {
		q.counter.end(q.user.Username)
	}
}

// UserFrom returns the authenticated user of a request that NewHandler's handler has passed on.
func UserFrom(ctx context.Context) (User, bool) {
	own, ok := ctx.Value(requestKey{}).(*request)
	if !ok {
		return User{}, false
	}
	return own.user, true
}

// LongRunning counts the request as a watch and stops its timeout. A handler calls LongRunning, on the request's
// goroutine, before it answers a watch or another long-running request. LongRunning fails with a Status: 429 if there
// are too many watches. For a request that did not pass through NewHandler's handler it does nothing.
func LongRunning(ctx context.Context) error {
	own, ok := ctx.Value(requestKey{}).(*request)
	if !ok || own.watch {
		return nil
	}
	if !own.timer.Stop() {
		return own.late()
	}
	if !own.counter.beginWatch(own.user.Username) {
		return tooManyRequests("Too many watches, please try again later.")
	}
	own.watch = true
	_ = own.control.SetReadDeadline(time.Time{})
	_ = own.control.SetWriteDeadline(time.Time{})
	return nil
}

func (h *handler) authenticate(r *http.Request) (User, error) {
	user, ok, err := h.authenticator.Authenticate(r)
	if ok && err == nil {
		if user, ok = authenticated(user); ok {
			return user, nil
		}
	}
	if err == nil {
		return User{}, apierrors.NewUnauthorized("Unauthorized")
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) || r.Context().Err() != nil {
		return User{}, statusError(err)
	}
	h.log.V(2).Info("Refusing a request's credentials", "client", r.RemoteAddr, "reason", err.Error())
	return User{}, apierrors.NewUnauthorized("Unauthorized")
}

// refuseImpersonation: if the headers were ignored, the response would show the objects of the real user.
func refuseImpersonation(r *http.Request, user User) error {
	for name := range r.Header {
		if len(name) >= len("Impersonate-") && strings.EqualFold(name[:len("Impersonate-")], "Impersonate-") {
			return forbidden(Attributes{
				User: user, Verb: "impersonate", Resource: "users", Name: r.Header.Get("Impersonate-User"),
			}, "Larder does not impersonate; ask the API server, or leave out --as, --as-group and --as-uid")
		}
	}
	return nil
}
