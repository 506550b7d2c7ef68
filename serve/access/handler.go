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
	// Authenticator finds the user of a request. Default: all requests are refused.
	Authenticator Authenticator
	// Limits bound requests. Default: see Limits.
	Limits Limits
	// Logger is told, at the verbosity 2, why credentials are refused. Default: klog.Background().
	Logger *logr.Logger
}

// NewHandler returns a handler that lets requests of known users through to next, within limits. Others are answered
// with a Status: 401 who is unknown, 403 who impersonates, 413 a body that is too large, 429 what is too much, 503 if
// the API server that knows cannot be reached. From the 241st request of an address within a minute that is refused
// because its user is unknown, each such refusal is sent after a second.
//
// next finds the user by UserFrom, and asks an Authorizer whether the user may (Require). It calls LongRunning before
// it answers a watch. The context of a request that is none ends after Limits.RequestTime; context.Cause is the Status
// to answer with.
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

// request is what the context of a request has of it.
type request struct {
	user    User
	counter *counter
	control *http.ResponseController
	timer   *time.Timer // ends the context
	watch   bool
}

type requestKey struct{}

// ServeHTTP implements http.Handler.
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

// admit finds the user of a request. Requests of unknown clients take no place of authenticated ones.
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
	for name := range r.Header { // those of a trusted proxy, which we are not behind and might send on
		if strings.HasPrefix(name, "X-Remote-") {
			r.Header.Del(name)
		}
	}
	return nil
}

// DropBody has the connection closed after the answer, without waiting for what is left of the request's body. It is
// called before the answer to a request whose body is not read.
func DropBody(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // not supported by recorders of tests
}

// writeGrace is for answering that the time is over.
const writeGrace = 5 * time.Second

// start bounds the time of the request. The deadlines are not supported by recorders of tests.
func (q *request) start(cancel context.CancelCauseFunc) {
	limit := q.counter.limits.RequestTime
	q.timer = time.AfterFunc(limit, func() {
		cancel(q.late())
	})
	_ = q.control.SetWriteDeadline(time.Now().Add(limit + writeGrace))
}

// bound limits the size of an authenticated request's body, and the time to read it, which the server has bounded more
// narrowly until now.
func (q *request) bound(w http.ResponseWriter, r *http.Request) {
	limit := q.counter.limits.RequestTime
	if r.Body == nil || r.Body == http.NoBody {
		limit += writeGrace // a client that goes is noticed meanwhile
	} else {
		r.Body = http.MaxBytesReader(w, r.Body, q.counter.limits.Body)
	}
	_ = q.control.SetReadDeadline(time.Now().Add(limit)) // not supported by recorders of tests
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

// UserFrom returns the user of a request that NewHandler's handler has let through.
func UserFrom(ctx context.Context) (User, bool) {
	own, ok := ctx.Value(requestKey{}).(*request)
	if !ok {
		return User{}, false
	}
	return own.user, true
}

// LongRunning has a request counted as a watch from now on, and no longer bounds its time. The handler calls it, from
// its own goroutine, before it answers a watch or anything else that lasts. The error is a Status: 429 if there are too
// many. A handler that is not behind NewHandler's may call it, too.
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
	_ = own.control.SetReadDeadline(time.Time{}) // not supported by recorders of tests
	_ = own.control.SetWriteDeadline(time.Time{})
	return nil
}

// authenticate returns the user, or a Status for who is none.
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

// refuseImpersonation refuses requests that ask to be answered as somebody else. To ignore that would answer them with
// what the real user may see.
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
