package listener

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"

	"github.com/go-logr/logr"

	"github.com/larder-dev/larder/serve/access/internal/reload"
)

// Certificates are what the listener shows, renewed or read anew while it runs. They may be used concurrently.
type Certificates struct {
	ca  []byte
	get func() (*tls.Certificate, error)
}

// CA returns the PEM of the certificate that clients are to trust. It is nil for certificates of an operator that an
// authority has signed, which clients know by other means.
func (c *Certificates) CA() []byte { return bytes.Clone(c.ca) }

// Config returns the configuration of a listener. clientCAs returns the authorities of client certificates as they are
// now; nil if there are none.
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
		now.ClientCAs = clientCAs() // tells clients with several certificates which one to show
		return now, nil
	}
	return config
}

// Multiplex is a protocol for the TLS configuration of a client with many watches, beside "h2" and "http/1.1": it asks
// a Server for HTTP/2, so that they share a connection. Other servers ignore it.
const Multiplex = "larder-multiplex"

// withMultiplex returns the configuration of a server that speaks HTTP/2 with clients that ask for it by Multiplex,
// while allowed returns true, and else HTTP/1.1.
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

// Load returns an operator's own certificate, with its chain, and its key.
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
		c.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Raw}) // it is its own authority
	}
	return c, nil
}
