package cluster

import (
	"net/http"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// renewal keeps the bearer token of a kubeconfig current. client-go rereads the files that a kubeconfig refers to and
// reruns its credential plugins, but it never rereads the kubeconfig itself. A login program may write a new token into
// the kubeconfig while a sync runs.
type renewal struct {
	// host is the server's host. first is the bearer token that client-go sets on requests, from the first read of the
	// kubeconfig.
	host, first string
	read        func() (*rest.Config, error) // read returns the configuration in the kubeconfig

	mu      sync.Mutex
	token   string // token is the bearer token of the next request; mu guards it
	reading bool   // reading is true while read is running; mu guards it
}

// renewToken changes config so that, once the server has rejected the first bearer token, requests use the token that
// read returns. It does nothing if the token is not in the kubeconfig itself.
func renewToken(config *rest.Config, read func() (*rest.Config, error)) {
	if config.BearerToken == "" || config.BearerTokenFile != "" {
		return
	}
	r := &renewal{host: config.Host, first: config.BearerToken, token: config.BearerToken, read: read}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &renewing{next, r} })
}

// kubeconfigReader returns a function that rereads the kubeconfig that the flags name. The function uses the context
// that was current at the first read (or --context), even if the file's current-context has changed since.
func kubeconfigReader(flags *Flags, currentContext string) func() (*rest.Config, error) {
	if name := flags.Overrides.CurrentContext; name != "" {
		currentContext = name
	}
	return func() (*rest.Config, error) {
		access := flags.loader().ConfigAccess()
		raw, err := access.GetStartingConfig()
		if err != nil {
			return nil, err
		}
		return clientcmd.NewNonInteractiveClientConfig(*raw, currentContext, &flags.Overrides, access).ClientConfig()
	}
}

func (r *renewal) current() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.token
}

// refused rereads the kubeconfig after the server has rejected a bearer token. The token does not change if the
// kubeconfig is unreadable, perhaps because a program is writing it, or names another server. The next rejection then
// triggers another read.
func (r *renewal) refused(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token != r.token || r.reading {
		return // another request has already replaced the token, or is reading the kubeconfig
	}
	r.reading = true
	r.mu.Unlock() // no mutex is held during the read, because the file's disk may hang
	config, err := r.read()
	r.mu.Lock()
	r.reading = false
	if err == nil && config.Host == r.host && config.BearerToken != "" {
		r.token = config.BearerToken
	}
}

type renewing struct {
	next http.RoundTripper
	*renewal
}

// RoundTrip implements http.RoundTripper. Requests with other credentials are not changed.
func (t *renewing) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Authorization") != "Bearer "+t.first {
		return t.next.RoundTrip(req)
	}
	token := t.current()
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := t.next.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		t.refused(token)
	}
	return resp, err
}

// WrappedRoundTripper returns the wrapped transport. client-go looks for this method.
func (t *renewing) WrappedRoundTripper() http.RoundTripper { return t.next }
