package listener

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/serve/access/internal/private"
	"github.com/larder-dev/larder/serve/access/internal/reload"
)

// Certificates provides the TLS certificate of a listener, which is renewed or reloaded while the listener runs. It is
// safe for concurrent use.
type Certificates struct {
	ca  []byte
	get func() (*tls.Certificate, error)
}

// CA returns the certificate, as PEM, that clients must trust. It is nil for an operator's certificate that is not
// self-signed: clients must then get the authority's certificate from the operator.
func (c *Certificates) CA() []byte { return bytes.Clone(c.ca) }

// Config returns the TLS configuration of a listener. clientCAs returns the current certificates of the authorities
// that sign client certificates; nil if client certificates are not used.
func (c *Certificates) Config(clientCAs func() *x509.CertPool) *tls.Config {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.get()
		},
	}
	if clientCAs == nil {
		return config
	}
	config.ClientAuth = tls.RequestClientCert
	base := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := base.Clone()
		now.ClientCAs = clientCAs() // clients choose their certificate by these authorities
		return now, nil
	}
	return config
}

// Multiplex is an ALPN protocol that a client with many watches offers, in addition to "h2" and "http/1.1". It asks a
// Server for HTTP/2, so that all watches share one connection. Other servers ignore Multiplex.
const Multiplex = "larder-multiplex"

// withMultiplex returns a TLS configuration that selects HTTP/2 for clients that offer Multiplex, as long as allowed
// returns true. Otherwise it selects HTTP/1.1.
func withMultiplex(config *tls.Config, allowed func() bool) *tls.Config {
	choose := config.Clone()
	choose.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		now := config
		if config.GetConfigForClient != nil {
			var err error
			if now, err = config.GetConfigForClient(hello); err != nil {
				return nil, err
			}
		}
		if slices.Contains(hello.SupportedProtos, Multiplex) && allowed() {
			now = now.Clone()
			now.NextProtos = []string{"h2", "http/1.1"}
		}
		return now, nil
	}
	return choose
}

// Load loads an operator's certificate with its chain, and the certificate's key.
func Load(certFile, keyFile string, log logr.Logger) (*Certificates, error) {
	parse := func(contents [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		return &pair, err
	}
	source, err := reload.New("serving certificate", log, parse, certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("serving certificate: %w", err)
	}
	c := &Certificates{get: func() (*tls.Certificate, error) { return source.Get(), nil }}
	if own := source.Get().Leaf; own.CheckSignature(own.SignatureAlgorithm, own.RawTBSCertificate, own.Signature) == nil {
		c.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Raw})
	}
	return c, nil
}

const (
	authorityLasts = 10 * 365 * 24 * time.Hour
	// authorityLeft is the minimum remaining lifetime of the certificate authority when a process starts. An authority
	// with a shorter one is replaced.
	authorityLeft = 30 * 24 * time.Hour
	servingLasts  = 7 * 24 * time.Hour
	servingLeft   = servingLasts / 3
)

// earliest is the NotBefore of all certificates. notBefore replaces an earlier clock when NotAfter is computed. A
// device without a battery for its clock starts in 1970 and sets the clock later.
var (
	earliest  = time.Unix(0, 0)
	notBefore = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Options are the options of Generate.
type Options struct {
	// Dir is the directory of the certificates and keys. It is created if missing.
	Dir string
	// Hosts are the names and IP addresses that clients connect to, including the host of the listen address. Names and
	// addresses of loopback are always added. Unspecified addresses, such as 0.0.0.0, are ignored.
	Hosts []string
	// Logger logs the creation of certificates. Default: klog.Background().
	Logger *logr.Logger
}

// Generate returns serving certificates that are signed by an authority of their own; the package documentation
// describes the files. It fails if other users may access the files. It also fails if the authority's file is damaged:
// a new authority would lock out the clients that trust the old one.
func Generate(o Options) (*Certificates, error) {
	g := &generator{dir: o.Dir, hosts: []string{"localhost", "127.0.0.1", "::1"}, log: klog.Background()}
	if o.Logger != nil {
		g.log = *o.Logger
	}
	for _, h := range o.Hosts {
		ip := net.ParseIP(h)
		if ip != nil {
			h = ip.String()
		}
		if h != "" && !ip.IsUnspecified() && !slices.Contains(g.hosts, h) {
			g.hosts = append(g.hosts, h)
		}
	}
	if err := private.Dir(o.Dir); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	if err := g.loadAuthority(); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	g.loadServing()
	if _, err := g.get(); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	return &Certificates{ca: certificatePEM(g.authority.Leaf), get: g.get}, nil
}

type generator struct {
	dir       string
	hosts     []string
	log       logr.Logger
	authority *tls.Certificate

	mu sync.Mutex
	// serving is nil if no certificate fits the hosts. mu guards serving.
	serving *tls.Certificate
}

func (g *generator) path(name string) string { return filepath.Join(g.dir, name) }

func (g *generator) loadAuthority() error {
	path := g.path("ca.pem")
	authority, err := loadPair(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if authority, err = g.makeAuthority(private.CreateFile); errors.Is(err, fs.ErrExist) {
			authority, err = loadPair(path) // another process has created the file meanwhile
		}
	case err == nil && !authority.Leaf.IsCA:
		err = fmt.Errorf("%s has the certificate of no authority", path)
	case err == nil && !lasts(authority.Leaf, authorityLeft):
		g.log.Info("The certificate authority ends soon: making a new one, which clients have to be given",
			"file", path, "end", authority.Leaf.NotAfter)
		fresh, failed := g.makeAuthority(private.WriteFile)
		switch {
		case failed == nil:
			authority = fresh
		case lasts(authority.Leaf, 0):
			g.log.Error(failed, "Keeping the certificate authority, which ends soon", "end", authority.Leaf.NotAfter)
		default:
			err = failed
		}
	}
	if err != nil {
		return err
	}
	g.authority = authority
	public := certificatePEM(authority.Leaf)
	if had, err := os.ReadFile(g.path("ca.crt")); err == nil && bytes.Equal(had, public) {
		return private.Check(g.path("ca.crt"))
	}
	if err := private.WriteFile(g.path("ca.crt"), public); err != nil {
		g.log.Error(err, "The certificate for clients cannot be written; the certificate of the authority is in ca.pem")
	}
	return nil
}

func (g *generator) makeAuthority(write func(string, []byte) error) (*tls.Certificate, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "larder"},
		NotAfter:              later(authorityLasts),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	return g.make(template, nil, g.path("ca.pem"), write)
}

func (g *generator) loadServing() {
	serving, err := loadPair(g.path("serving.pem"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		g.log.Error(err, "Passing over the serving certificate")
	case serving.Leaf.CheckSignatureFrom(g.authority.Leaf) == nil && g.names(serving.Leaf):
		g.serving = serving
	}
}

func (g *generator) names(c *x509.Certificate) bool {
	return !slices.ContainsFunc(g.hosts, func(h string) bool { return c.VerifyHostname(h) != nil })
}

// get returns the serving certificate, and renews it if it expires soon. A certificate that cannot be written is kept
// in memory.
func (g *generator) get() (*tls.Certificate, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.serving != nil && lasts(g.serving.Leaf, servingLeft) {
		return g.serving, nil
	}
	fresh, err := g.makeServing()
	if err != nil {
		return nil, err
	}
	g.log.Info("Made a serving certificate", "hosts", g.hosts, "end", fresh.Leaf.NotAfter)
	g.serving = fresh
	return fresh, nil
}

func (g *generator) makeServing() (*tls.Certificate, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "larder-serve"},
		NotAfter:    later(servingLasts),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range g.hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	return g.make(template, g.authority, g.path("serving.pem"), func(path string, both []byte) error {
		if err := private.WriteFile(path, both); err != nil {
			g.log.Error(err, "The serving certificate cannot be written, and is kept in memory")
		}
		return nil
	})
}

// make creates a key and its certificate, and writes both to a file. The certificate is signed by the authority by, or
// by itself if by is nil.
func (g *generator) make(
	template *x509.Certificate, by *tls.Certificate, path string, write func(string, []byte) error,
) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, err
	}
	template.NotBefore = earliest
	parent, signer := template, any(key)
	if by != nil {
		parent, signer = by.Leaf, by.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	both := slices.Concat(
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	)
	if err := write(path, both); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(both, both)
	return &pair, err
}

// loadPair reads a certificate and its private key from one file, which only its owner may access.
func loadPair(path string) (*tls.Certificate, error) {
	if err := private.Check(path); err != nil {
		return nil, err
	}
	both, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(both, both)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; if nobody needs it, remove it", path, err)
	}
	return &pair, nil
}

func lasts(c *x509.Certificate, left time.Duration) bool {
	now := time.Now()
	return !now.Before(c.NotBefore) && now.Add(left).Before(c.NotAfter)
}

func later(d time.Duration) time.Time {
	now := time.Now()
	if now.Before(notBefore) {
		now = notBefore
	}
	return now.Add(d)
}

func certificatePEM(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}
