package serving

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/serve/access"
	"github.com/larder-dev/larder/serve/access/kubeconfig"
	"github.com/larder-dev/larder/serve/access/listener"
	"github.com/larder-dev/larder/serve/page"
)

// name is the name of the user and of the context in the kubeconfig that a port writes.
const name = "larder"

// Options says at which address and to which users a Port serves.
type Options struct {
	Flags
	// Upstream is the API server that authenticates and authorizes users other than the owner of the kubeconfig; nil
	// without an API server.
	Upstream *rest.Config
	// Directory holds the certificates. Temporary says that the directory is removed at exit; its new certificates are
	// then not logged.
	Directory string
	Temporary bool
}

// Port is the server of the Kubernetes API at one address. Create it with Listen.
type Port struct {
	// URL is the address of the port. Config is the content of a kubeconfig for the port; Serve sets it.
	URL    string
	Config kubeconfig.Config
	Memory *serve.Memory

	o        Options
	token    string // token is the bearer token in the kubeconfig
	listener net.Listener
	handler  *serve.Handler // handler is nil before the call of Serve
	server   *listener.Server
	running  sync.WaitGroup
}

// Listen binds the address and reads the files that the flags name. It writes nothing, so that a port that cannot serve
// leaves no files behind.
func Listen(ctx context.Context, o Options) (*Port, error) {
	p := &Port{o: o, token: access.NewToken(), Memory: serve.NewMemory(int64(o.memory))}
	if o.Kubeconfig != "" {
		if err := p.reuseToken(klog.FromContext(ctx)); err != nil {
			return nil, err
		}
	}
	if in, err := os.Stat(o.Directory); err == nil && !in.IsDir() {
		return nil, command.WithHint(fmt.Errorf("certificates are kept in %s, which is no directory", o.Directory),
			"move it away")
	}
	if o.Upstream != nil && o.Upstream.BearerToken == p.token {
		return nil, command.WithHint(fmt.Errorf("the kubeconfig in use is %s, which leads to this mirror and not to the API "+
			"server", o.Kubeconfig), "name the API server's with --kubeconfig, or set or unset KUBECONFIG")
	}
	if o.certFile != "" {
		if _, err := listener.Load(o.certFile, o.keyFile, logr.Discard()); err != nil {
			return nil, command.Usage(err)
		}
	}
	if _, err := p.guards(nil, logr.Discard()); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Address)
	if err != nil {
		hint := "name an address of this machine"
		if errors.Is(err, syscall.EADDRINUSE) {
			hint = "name another address, or end what has this one"
		}
		return nil, command.WithHint(fmt.Errorf("objects cannot be served at %s: %w", o.Address, err), "%s", hint)
	}
	p.listener, p.URL = l, "https://"+o.hostPort(l.Addr())
	return p, nil
}

// hostPort returns the host and port at which clients reach a listener bound to addr. If it listens on all interfaces,
// the host is the first --serve-host, or loopback.
func (o *Options) hostPort(addr net.Addr) string {
	_, port, err := net.SplitHostPort(addr.String())
	host, _, _ := net.SplitHostPort(o.Address)
	ip := net.ParseIP(host) // a listener on all interfaces has the address [::], even for 0.0.0.0
	switch {
	case err != nil || !ip.IsUnspecified():
		return addr.String()
	case len(o.hosts) > 0:
		host = o.hosts[0]
	case ip.To4() != nil:
		host = "127.0.0.1"
	default:
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}

// reuseToken reuses the token in the kubeconfig that an earlier process has written. It rejects a token of another
// program, such as a token for the API server: its owner would then have larder's own access to everything.
func (p *Port) reuseToken(logger logr.Logger) error {
	path := p.o.Kubeconfig
	if err := kubeconfig.Check(path, name); err != nil {
		return command.WithHint(err, "name another file with --serve-kubeconfig, or move this one away")
	}
	known, err := kubeconfig.Token(path, name)
	switch {
	case err == nil && !access.IsNewToken(known):
		return command.WithHint(fmt.Errorf("the token in %s is none that larder has made", path),
			"copy the file for other users and move this one away, or name another with --serve-kubeconfig")
	case err == nil:
		p.token = known
	case !errors.Is(err, os.ErrNotExist):
		logger.Info("A new token is made", "kubeconfig", path, "why", err.Error())
	}
	return nil
}

// Served is the content, such as a mirror or a file, that a Port serves.
type Served struct {
	Source serve.Source
	// Facts are the stored documents with facts about the API server, such as the keys of its service accounts, or nil.
	Facts facts.Documents
	// Notes, Snapshots and Metrics are passed to the HTTP handler; see serve.Options.
	Notes     func(entry.Info) []entry.Note
	Snapshots http.Handler
	Metrics   http.Handler
	Status    func(context.Context) (source.Status, error)
	Log       source.Logger
	// Compared is the comparison with an older file that the page shows, or nil.
	Compared *Compared
}

// Serve starts to answer requests in the background, until Close.
func (p *Port) Serve(ctx context.Context, s Served) error {
	logger := klog.FromContext(ctx)
	limitMemory(int64(p.o.memory))
	certificates, err := p.o.certificates(p.listener.Addr())
	if err != nil {
		return err
	}
	g, err := p.guards(s.Source, logger)
	if err != nil {
		return err
	}
	if p.handler, p.server, err = p.put(s, g, certificates, logger); err != nil {
		return err
	}
	p.Config = kubeconfig.Config{Name: name, Server: p.URL, CA: certificates.CA(), Token: p.token}
	if p.o.Kubeconfig != "" {
		if err := p.writeKubeconfig(logger); err != nil {
			return err
		}
	}
	p.running.Go(func() {
		if err := p.server.ServeTLS(p.listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			logger.Error(err, "Objects are not served any more", "address", p.URL)
		}
	})
	return nil
}

// writeKubeconfig writes the kubeconfig. If that fails but the kubeconfig of an earlier process exists, it only logs
// the error: the token in that file is still valid, and a mirror is most useful when a disk is full.
func (p *Port) writeKubeconfig(logger logr.Logger) error {
	err := p.Config.Write(p.o.Kubeconfig)
	if err == nil {
		return nil
	}
	if _, missing := kubeconfig.Token(p.o.Kubeconfig, name); missing != nil {
		return err
	}
	logger.Error(err, "The kubeconfig cannot be written; the one that is there is left, with the same token, and "+
		"perhaps with an older address or certificate", "address", p.URL)
	return nil
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

// guards holds the authenticators and authorizers of a port, except those that ask the upstream API server.
type guards struct {
	owner  *access.StaticToken // owner authenticates the user of the kubeconfig
	users  []access.Authenticator
	own    access.Authenticator // own authenticates users whose credentials the API server does not know
	rights access.Authorizer
	// withheld reports whether a resource is confidential; see serve.Withheld.
	withheld func(context.Context, schema.GroupResource) (bool, error)
	// authorities returns the CAs that sign client certificates; nil without --client-ca-file.
	authorities func() *x509.CertPool
}

func (p *Port) guards(src serve.Source, logger logr.Logger) (g guards, err error) {
	o := &p.o
	g.withheld = serve.Withheld(src)
	if g.owner, err = access.NewStaticToken(p.token, name); err != nil {
		return g, err
	}
	g.users, g.own, g.rights = []access.Authenticator{g.owner}, g.owner, access.Nothing{}
	if o.clientCA != "" {
		ca, err := access.NewClientCA(o.clientCA, logger)
		if err != nil {
			return g, command.Usage(err)
		}
		g.users, g.authorities = append(g.users, ca), ca.Pool
	}
	if o.tokenFile != "" {
		tokens, err := access.NewTokenFile(o.tokenFile, logger)
		if err != nil {
			return g, command.Usage(err)
		}
		g.users, g.own = append(g.users, tokens), access.Union(g.owner, tokens)
	}
	if o.offline != "" {
		if g.rights, err = access.NewOfflineAccess(o.offline, g.withheld, logger); err != nil {
			return g, command.WithHint(command.Usage(err), "docs/serve.md has an example of such a file")
		}
	}
	return g, nil
}

func (p *Port) put(
	s Served, g guards, certificates *listener.Certificates, logger logr.Logger,
) (*serve.Handler, *listener.Server, error) {
	o, rights := &p.o, g.rights
	var accounts access.Authenticator
	if s.Facts != nil {
		accounts = &storedAccounts{facts: s.Facts, logger: logger}
	}
	var forward *serve.Forwarder
	switch {
	case o.Upstream != nil:
		upstream, err := access.NewUpstream(o.Upstream, access.UpstreamOptions{Accounts: accounts})
		if err != nil {
			return nil, nil, err
		}
		if rights = access.FallbackAuthorizer(upstream, rights); o.offline == "" {
			rights = upstream
		}
		g.users = append(g.users, upstream)
		if o.Forward {
			if forward, err = serve.Forward(o.Upstream, g.own); err != nil {
				return nil, nil, err
			}
		}
	case accounts != nil:
		g.users = append(g.users, accounts)
	}
	h, err := serve.New(s.Source, serve.Options{
		Memory: p.Memory, Narrow: o.narrow, Confidential: o.Secrets, Forward: forward, Notes: s.Notes, Snapshots: s.Snapshots,
		Page:       page.New(p.pageOptions(s)),
		Metrics:    s.Metrics,
		Authorizer: access.Everything{User: g.owner.User(), WithSecrets: o.Secrets, Withheld: g.withheld, Others: rights},
	})
	if err != nil {
		return nil, nil, err
	}
	guarded := access.NewHandler(h, access.HandlerOptions{Authenticator: access.Union(g.users...), Logger: &logger})
	return h, listener.NewServer(page.Files(guarded), certificates.Config(g.authorities), access.Limits{}, logger), nil
}

// Page returns the URL of the web page that shows the served content to people.
func (p *Port) Page() string { return p.URL + "/" }

// PageWithToken returns the URL of the web page with the kubeconfig's token, which signs the user in with read access
// to everything. The token is in the URL's fragment, which browsers do not send to servers.
func (p *Port) PageWithToken() string { return p.Page() + "#token=" + p.token }

// Kubeconfig returns the path of the kubeconfig that Serve has written; "" if it has written none.
func (p *Port) Kubeconfig() string { return p.o.Kubeconfig }

// Close ends all requests to the port and waits until their handlers have returned.
func (p *Port) Close() error {
	if p.handler == nil {
		return p.listener.Close()
	}
	err := p.handler.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if p.server.Shutdown(ctx) != nil {
		err = errors.Join(err, p.server.Close())
	}
	p.running.Wait()
	_ = p.listener.Close() // a server that has served the listener has closed it already
	return err
}

// storedAccounts authenticates service accounts of the mirrored cluster by their tokens. It verifies a token with the
// cluster's keys in the store. It reads the keys for each token, because a first sync stores them only after it has
// begun to serve, and clusters rotate them.
type storedAccounts struct {
	facts  facts.Documents
	logger logr.Logger

	mu       sync.Mutex
	keys     facts.Keys              // keys are the keys read last, valid or not; mu guards them
	accounts *access.ServiceAccounts // accounts verifies tokens with keys; nil if no valid keys are stored; mu guards it
}

// Authenticate implements access.Authenticator. It recognises no token if no keys are stored.
func (s *storedAccounts) Authenticate(r *http.Request) (access.User, bool, error) {
	accounts := s.current(r.Context())
	if accounts == nil {
		return access.User{}, false, nil
	}
	return accounts.Authenticate(r)
}

// current returns the verifier of tokens for the stored keys. If the keys cannot be read, it returns the previous
// verifier.
func (s *storedAccounts) current(ctx context.Context) *access.ServiceAccounts {
	stored, err := facts.ReadKeys(ctx, s.facts)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.logger.V(2).Info("The keys of service accounts cannot be read", "err", err)
	case stored == nil:
		s.keys, s.accounts = facts.Keys{}, nil
	case stored.Issuer != s.keys.Issuer || !bytes.Equal(stored.JWKS, s.keys.JWKS):
		s.keys = *stored
		if s.accounts, err = access.NewServiceAccounts(access.Issuer{URL: stored.Issuer, JWKS: stored.JWKS}); err != nil {
			s.logger.Error(err, "The stored keys of service accounts are of no use")
			s.accounts = nil
		}
	}
	return s.accounts
}
