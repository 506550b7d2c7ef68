package serving

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/serve/access"
	"github.com/larder-dev/larder/serve/access/kubeconfig"
	"github.com/larder-dev/larder/serve/access/listener"
)

// name is that of the user and the context in the kubeconfig.
const name = "larder"

// Options are the options of Open.
type Options struct {
	Flags
	Source serve.Source
	// Facts are what is known of the API server: the keys of its service accounts. May be nil.
	Facts facts.Documents
	// Upstream leads to the API server that says who somebody is, and what they may do; nil if there is none.
	Upstream *rest.Config
	// Directory is where the certificates are kept; Temporary says that it goes with the process, so that nobody needs to
	// know of new ones.
	Directory string
	Temporary bool
	// Sealed are the resources that the store seals, which rights to all resources do not have.
	Sealed []schema.GroupResource
	// AsOf: see serve.Options.
	AsOf func(entry.Info) time.Time
}

// Port serves objects. Open returns one.
type Port struct {
	// URL is where it is, and Config what a kubeconfig has.
	URL    string
	Config kubeconfig.Config

	handler *serve.Handler
	server  *listener.Server
	running sync.WaitGroup
}

// Open listens and serves until Close.
func Open(ctx context.Context, o Options) (_ *Port, err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Address)
	if err != nil {
		return nil, command.WithHint(fmt.Errorf("objects cannot be served at %s: %w", o.Address, err),
			"name another address, or end what has this one")
	}
	defer func() {
		if err != nil {
			_ = l.Close()
		}
	}()
	p := &Port{URL: "https://" + l.Addr().String()}
	logger := klog.FromContext(ctx)
	certificates, err := o.certificates(l.Addr())
	if err != nil {
		return nil, err
	}
	token := access.NewToken()
	if o.Kubeconfig != "" {
		if known, err := kubeconfig.Token(o.Kubeconfig, name); err == nil {
			token = known
		} else if !errors.Is(err, os.ErrNotExist) {
			logger.Info("A new token is made", "kubeconfig", o.Kubeconfig, "why", err.Error())
		}
	}
	if o.Upstream != nil && o.Upstream.BearerToken == token {
		return nil, command.WithHint(fmt.Errorf("the kubeconfig in use is %s, which leads to this mirror and not to the API "+
			"server", o.Kubeconfig), "name the API server's with --kubeconfig, or set or unset KUBECONFIG")
	}
	p.Config = kubeconfig.Config{Name: name, Server: p.URL, CA: certificates.CA(), Token: token}
	if p.handler, p.server, err = o.serve(ctx, certificates, token); err != nil {
		return nil, err
	}
	if o.Kubeconfig != "" {
		if err := p.Config.Write(o.Kubeconfig); err != nil {
			return nil, errors.Join(err, p.handler.Close())
		}
	}
	p.running.Go(func() {
		if err := p.server.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
			logger.Error(err, "Objects are not served any more", "address", p.URL)
		}
	})
	return p, nil
}

func (o *Options) certificates(addr net.Addr) (*listener.Certificates, error) {
	if o.certFile != "" {
		return listener.Load(o.certFile, o.keyFile, klog.Background())
	}
	hosts := o.hosts
	if host, _, err := net.SplitHostPort(addr.String()); err == nil {
		hosts = append([]string{host}, hosts...)
	}
	made := listener.Options{Dir: o.Directory, Hosts: hosts}
	if o.Temporary {
		quiet := logr.Discard()
		made.Logger = &quiet
	}
	return listener.Generate(made)
}

// serve puts together who is let in, and what they may do.
func (o *Options) serve(
	ctx context.Context, certificates *listener.Certificates, token string,
) (*serve.Handler, *listener.Server, error) {
	logger := klog.FromContext(ctx)
	owner, err := access.NewStaticToken(token, name)
	if err != nil {
		return nil, nil, err
	}
	users, rights := []access.Authenticator{owner}, access.Authorizer(access.Nothing{})
	own := access.Authenticator(owner) // who is known by what the API server does not know
	var authorities func() *x509.CertPool
	if o.clientCA != "" {
		ca, err := access.NewClientCA(o.clientCA, logger)
		if err != nil {
			return nil, nil, command.Usage(err)
		}
		users, authorities = append(users, ca), ca.Pool
	}
	if o.tokenFile != "" {
		tokens, err := access.NewTokenFile(o.tokenFile, logger)
		if err != nil {
			return nil, nil, command.Usage(err)
		}
		users = append(users, tokens)
		own = access.Union(owner, tokens)
	}
	if o.offline != "" {
		if rights, err = access.NewOfflineAccess(o.offline, o.Sealed, logger); err != nil {
			return nil, nil, command.Usage(err)
		}
	}
	var accounts access.Authenticator
	if o.Facts != nil {
		accounts = &storedAccounts{facts: o.Facts, logger: logger}
	}
	var forward http.Handler
	switch {
	case o.Upstream != nil:
		upstream, err := access.NewUpstream(o.Upstream, access.UpstreamOptions{})
		if err != nil {
			return nil, nil, err
		}
		if rights = access.FallbackAuthorizer(upstream, rights); o.offline == "" {
			rights = upstream
		}
		var bearer access.Authenticator = upstream
		if accounts != nil {
			bearer = access.FallbackAuthenticator(upstream, accounts)
		}
		users = append(users, bearer)
		if o.Forward {
			if forward, err = serve.Forward(o.Upstream, own); err != nil {
				return nil, nil, err
			}
		}
	case accounts != nil:
		users = append(users, accounts)
	}
	h, err := serve.New(o.Source, serve.Options{
		Narrow: o.narrow, Confidential: o.secrets, Forward: forward, AsOf: o.AsOf,
		Authorizer: access.Everything{User: owner.User(), WithSecrets: o.secrets, Sealed: o.Sealed, Others: rights},
	})
	if err != nil {
		return nil, nil, err
	}
	guarded := access.NewHandler(h, access.HandlerOptions{Authenticator: access.Union(users...), Logger: &logger})
	return h, listener.NewServer(guarded, certificates.Config(authorities), access.Limits{}, logger), nil
}

// Close ends all requests, and waits for them.
func (p *Port) Close() error {
	err := p.handler.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if p.server.Shutdown(ctx) != nil {
		err = errors.Join(err, p.server.Close())
	}
	p.running.Wait()
	return err
}
