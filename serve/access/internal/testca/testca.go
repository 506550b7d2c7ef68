// Package testca signs certificates for tests. Start with [New].
package testca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// Authority is a certificate authority that signs certificates for tests.
type Authority struct {
	t    testing.TB
	pair tls.Certificate
}

// New returns a certificate authority with a self-signed certificate.
func New(t testing.TB, name string) *Authority {
	a := &Authority{t: t}
	a.pair = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	})
	return a
}

// PEM returns the authority's own certificate as PEM.
func (a *Authority) PEM() []byte { return CertificatePEM(a.pair) }

// Client returns a client certificate for a user in groups, signed by the authority.
func (a *Authority) Client(user string, groups ...string) tls.Certificate {
	return a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// Server returns a certificate, signed by the authority, for a server on 127.0.0.1.
func (a *Authority) Server(name string) tls.Certificate {
	return a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// Sign returns a certificate with the template's fields. It is valid for an hour unless the template sets NotAfter.
func (a *Authority) Sign(template *x509.Certificate) tls.Certificate { return a.sign(template) }

func (a *Authority) sign(template *x509.Certificate) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		a.t.Fatal(err)
	}
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	parent, signer := template, any(key)
	if a.pair.Leaf != nil {
		parent, signer = a.pair.Leaf, a.pair.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// CertificatePEM returns the certificate of a key pair as PEM.
func CertificatePEM(pair tls.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
}

// KeyPEM returns the private key of a key pair as PEM.
func KeyPEM(t testing.TB, pair tls.Certificate) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
