package cluster

import (
	"net/http"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// renewal keeps the bearer token of a kubeconfig up to date. client-go reads the files that a kubeconfig names again,
// and runs its plugins again, but not the kubeconfig itself: a program that logs in writes a new token there, while a
// sync goes on.
type renewal struct {
	host, first string                       // the server, and the token that client-go puts into the requests
	read        func() (*rest.Config, error) // reads the kubeconfig

	mu      sync.Mutex
	token   string // guarded by mu; the token of the next request
	reading bool   // guarded by mu; read is running
}

// renewToken has the requests of config carry the token that read returns, from the first one on that the server
// refuses. It does nothing if the token is not in the kubeconfig itself.
func renewToken(config *rest.Config, read func() (*rest.Config, error)) {
	if config.BearerToken == "" || config.BearerTokenFile != "" {
		return
	}
	r := &renewal{host: config.Host, first: config.BearerToken, token: config.BearerToken, read: read}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &renewing{next, r} })
}

// kubeconfigReader returns a function that reads the kubeconfig of the flags again, for the context that it has now.
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

// current returns the token of the next request.
func (r *renewal) current() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.token
}

// refused reads the kubeconfig, because the server has refused token. A kubeconfig that cannot be read, which a program
// may just be writing, or that leads to another server, changes nothing: the next refusal reads it again.
func (r *renewal) refused(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token != r.token || r.reading {
		return // another request has brought a new one, or is about to
	}
	r.reading = true
	r.mu.Unlock() // the file may be on a disk that hangs
	config, err := r.read()
	r.mu.Lock()
	r.reading = false
	if err == nil && config.Host == r.host && config.BearerToken != "" {
		r.token = config.BearerToken
	}
}

// renewing is the transport of a config whose token may be renewed.
type renewing struct {
	next http.RoundTripper
	*renewal
}

// RoundTrip implements http.RoundTripper. Requests with other credentials pass as they are.
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

// WrappedRoundTripper returns the transport below, for client-go.
func (t *renewing) WrappedRoundTripper() http.RoundTripper { return t.next }
