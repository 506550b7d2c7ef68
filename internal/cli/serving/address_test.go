package serving

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/store"
)

// TestAddressInKubeconfig checks that the kubeconfig has an address that the certificate covers, even if the port
// listens on all interfaces, and that the certificate covers the addresses of --serve-host (issue 38).
func TestAddressInKubeconfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	fill(t, path, store.Options{})
	st, err := store.Open(path, store.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	for name, test := range map[string]struct {
		args []string
		want string   // want is the expected host in the kubeconfig's URL
		also []string // also has further hosts that the certificate must cover
	}{
		"loopback": {[]string{"--serve=127.0.0.1:0"}, "127.0.0.1", nil},
		"no host":  {[]string{"--serve=:0"}, "127.0.0.1", nil},
		"IPv4":     {[]string{"--serve=0.0.0.0:0"}, "127.0.0.1", nil},
		"IPv6":     {[]string{"--serve=[::]:0"}, "::1", nil},
		"a name": {[]string{"--serve=0.0.0.0:0", "--serve-host=mirror.example,10.1.2.3"}, "mirror.example",
			[]string{"10.1.2.3"}},
		"an IPv6 address": {[]string{"--serve=[::]:0", "--serve-host=fd00::17"}, "fd00::17", nil},
		"in brackets":     {[]string{"--serve=[::]:0", "--serve-host=[fd00::17]"}, "fd00::17", nil},
		"loopback, a name": {[]string{"--serve=127.0.0.1:0", "--serve-host=mirror.example"}, "127.0.0.1",
			[]string{"mirror.example"}},
	} {
		t.Run(name, func(t *testing.T) {
			var flags Flags
			set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
			flags.Add(set, "it")
			if err := set.Parse(test.args); err != nil {
				t.Fatal(err)
			}
			if err := flags.Check(); err != nil {
				t.Fatal(err)
			}
			p, err := Listen(t.Context(), Options{Flags: flags, Directory: filepath.Join(t.TempDir(), "tls"), Temporary: true})
			if err != nil {
				t.Fatal(err)
			}
			status := func(context.Context) (source.Status, error) { return source.Status{}, nil }
			if err := p.Serve(t.Context(), Served{Source: serve.Store(st), Status: status}); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = p.Close() }()
			u, err := url.Parse(p.Config.Server)
			if err != nil || u.Hostname() != test.want {
				t.Errorf("the kubeconfig has %q, want the host %s (%v)", p.Config.Server, test.want, err)
			}
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(p.Config.CA)
			for _, host := range append(test.also, u.Hostname()) {
				_, port, _ := net.SplitHostPort(p.listener.Addr().String())
				conn, err := tls.Dial("tcp", net.JoinHostPort("localhost", port), &tls.Config{RootCAs: pool, ServerName: host})
				if err != nil {
					t.Errorf("%s: %v", host, err)
					continue
				}
				_ = conn.Close()
			}
		})
	}
}
