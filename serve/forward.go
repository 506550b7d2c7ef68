package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/internal/apistatus"
	"github.com/larder-dev/larder/serve/access"
)

// Forwarder forwards requests to an API server. The function Forward returns one.
type Forwarder struct {
	own   access.Authenticator
	proxy *httputil.ReverseProxy
}

// Forward returns a Forwarder to the API server of config. Requests carry the caller's own credentials, never config's.
// X-Forwarded-For carries the caller's address, for the audit log of the API server. A caller with a client
// certificate, or with credentials that the authenticator own recognizes, has none for the API server and is rejected
// with 403.
func Forward(config *rest.Config, own access.Authenticator) (*Forwarder, error) {
	anonymous := rest.AnonymousClientConfig(config)
	transport, err := rest.TransportFor(anonymous)
	if err != nil {
		return nil, fmt.Errorf("forward to the API server: %w", err)
	}
	anonymous.NextProtos = []string{"http/1.1"} // exec and other upgrades need HTTP/1.1
	upgrades, err := rest.TransportFor(anonymous)
	if err != nil {
		return nil, fmt.Errorf("forward to the API server: %w", err)
	}
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("forward to the API server: %w", err)
	}
	proxy := &httputil.ReverseProxy{
		Transport:     transports{transport, upgrades},
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host, Path: strings.TrimSuffix(target.Path, "/")})
			r.Out.Host = target.Host
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"] // the header of earlier proxies is kept
			r.SetXForwarded()
		},
		ModifyResponse: func(answer *http.Response) error {
			if answered, ok := answer.Request.Context().Value(answeredKey{}).(func(*http.Response)); ok {
				answered(answer)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(err, http.ErrAbortHandler) {
				panic(err)
			}
			cause := context.Cause(r.Context())
			fallback, ok := r.Context().Value(fallbackKey{}).(http.Handler)
			if ok && (cause == nil || errors.Is(cause, errUnreached)) {
				fallback.ServeHTTP(w, r)
				return
			}
			access.WriteError(w, r, forwardError(r.Context(), err))
		},
	}
	return &Forwarder{own: own, proxy: proxy}, nil
}

// ServeHTTP implements http.Handler.
func (f *Forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !f.takes(r) {
		access.WriteError(w, r, apistatus.New(http.StatusForbidden, "this goes to the API server, "+
			"which does not know the credentials of the request: use a token of the API server's, with the address and "+
			"the CA of this server"))
		return
	}
	f.proxy.ServeHTTP(w, r)
}

// fallbackKey is the context key of the handler that answers a forwarded request while the API server is unreachable.
type fallbackKey struct{}

func (f *Forwarder) serveOr(w http.ResponseWriter, r *http.Request, fallback http.Handler) {
	f.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), fallbackKey{}, fallback)))
}

// takes reports whether the request has the user's own credentials, which the API server might accept.
func (f *Forwarder) takes(r *http.Request) bool {
	_, known, _ := f.own.Authenticate(r)
	return !known && r.Header.Get("Authorization") != ""
}

// forward forwards the request to the API server. Watches, followed logs and upgrades count as long-running requests.
func (q *request) forward() error {
	query := q.r.URL.Query()
	lasts := q.r.Header.Get("Upgrade") != "" || strings.Contains(q.r.URL.Path, "/watch/")
	for _, name := range []string{"watch", "follow"} {
		value := query.Get(name)
		lasts = lasts || query.Has(name) && value != "false" && value != "0"
	}
	w, ctx := q.w, q.ctx
	if lasts {
		if err := access.LongRunning(q.r.Context()); err != nil {
			return err
		}
		w = deadlineWriter{w, q.writeDeadline}
	} else if q.writesTo() {
		ctx = context.WithValue(ctx, answeredKey{}, q.written)
	}
	q.Handler.options.Forward.ServeHTTP(w, q.r.WithContext(ctx))
	return nil
}

type transports struct{ others, upgrades http.RoundTripper }

func (t transports) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Upgrade") != "" {
		return t.upgrades.RoundTrip(r)
	}
	return t.others.RoundTrip(r)
}

func forwardError(ctx context.Context, err error) error {
	var known apierrors.APIStatus
	var tooLarge *http.MaxBytesError
	switch cause := context.Cause(ctx); {
	case errors.As(cause, &known):
		return cause
	case errors.As(err, &tooLarge):
		return apierrors.NewRequestEntityTooLargeError("the request's body is too large")
	}
	return apierrors.NewServiceUnavailable("the API server, which answers this, cannot be reached")
}
