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
		now.ClientCAs = clientCAs()
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
