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

// name is that of the user and the context in the kubeconfig.
const name = "larder"

// Options are the options of Listen.
type Options struct {
	Flags
	// Upstream leads to the API server that says who somebody is, and what they may do; nil if there is none.
	Upstream *rest.Config
	// Directory is where the certificates are kept; Temporary says that it goes with the process, so that nobody needs to
	// know of new ones.
	Directory string
	Temporary bool
}

// Port serves objects. Listen returns one.
type Port struct {
	// URL is where it is, and Config what a kubeconfig has, once it serves.
	URL    string
	Config kubeconfig.Config
	// Memory is the budget of what it answers.
	Memory *serve.Memory

	o        Options
	token    string // of the kubeconfig
	listener net.Listener
	handler  *serve.Handler // nil until it serves
	server   *listener.Server
	running  sync.WaitGroup
}

// Listen takes the address, and reads the files that the flags name. It writes nothing, so that who cannot serve does
// not begin.
func Listen(ctx context.Context, o Options) (*Port, error) {
	p := &Port{o: o, token: access.NewToken(), Memory: serve.NewMemory(int64(o.memory))}
	if o.Kubeconfig != "" {
		if err := p.takeToken(klog.FromContext(ctx)); err != nil {
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

// hostPort returns where clients reach the port that listens at addr. Where that is every interface, it is the first
// --serve-host, or loopback.
func (o *Options) hostPort(addr net.Addr) string {
	_, port, err := net.SplitHostPort(addr.String())
	host, _, _ := net.SplitHostPort(o.Address)
	ip := net.ParseIP(host) // addr has [::] for 0.0.0.0, too
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

// takeToken takes the token of the kubeconfig that an earlier process has written. One that somebody has put there,
// such as a token of the API server, would make its owner larder's own user.
func (p *Port) takeToken(logger logr.Logger) error {
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

// Served is what a Port serves.
type Served struct {
	Source serve.Source
	// Facts are what is known of the API server: the keys of its service accounts. May be nil.
	Facts facts.Documents
	// Notes, Snapshots and Metrics: see serve.Options.
	Notes     func(entry.Info) []entry.Note
	Snapshots http.Handler
	Metrics   http.Handler
	// Status describes what is served, for the page.
	Status func(context.Context) (source.Status, error)
	// Log tells what has changed; nil if nothing does.
	Log source.Logger
	// Compared is what the page shows beside it; nil if nothing is.
	Compared *Compared
}

// Serve serves until Close.
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

// writeKubeconfig writes the kubeconfig. If that fails and there is one of an earlier process, whose token is still
// valid, the port is served all the same: on a full disk a mirror is worth most.
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

// guards are who is let in, and what they may do but for what the API server decides.
type guards struct {
	owner       *access.StaticToken // of the kubeconfig
	users       []access.Authenticator
	own         access.Authenticator // of those, who is known by what the API server does not know
	rights      access.Authorizer
	withheld    func(context.Context, schema.GroupResource) (bool, error) // serve.Withheld
	authorities func() *x509.CertPool                                     // nil without --client-ca-file
}

// guards reads the files of the flags. src is Served.Source.
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

// put puts together what answers.
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

// Page is the address of the page for people, and PageWithToken the same with what signs in there, for the eyes of who
// may read everything that is served. No server is sent the fragment of an address.
func (p *Port) Page() string { return p.URL + "/" }

// PageWithToken is Page with the token of the kubeconfig.
func (p *Port) PageWithToken() string { return p.Page() + "#token=" + p.token }

// Kubeconfig is where the kubeconfig is written; empty if nowhere.
func (p *Port) Kubeconfig() string { return p.o.Kubeconfig }

// Close ends all requests, and waits for them.
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
	_ = p.listener.Close() // the server has closed it, if it has begun to serve
	return err
}
