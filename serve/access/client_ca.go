package access

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/util/cert"

	"github.com/larder-dev/larder/serve/access/internal/reload"
)

// ClientCA authenticates client certificates that are signed by the authorities in a PEM file, like kube-apiserver's
// --client-ca-file. The common name is the user, and the organizations are the groups. A changed file takes effect
// within a second, also on open connections. The TLS listener must request client certificates, as the configuration of
// listener.Certificates does.
type ClientCA struct {
	source *reload.Source[*x509.CertPool]
}

// NewClientCA reads the authorities from the PEM file at path.
func NewClientCA(path string, log logr.Logger) (*ClientCA, error) {
	source, err := reload.New("client certificate authorities", log, parseAuthorities, path)
	if err != nil {
		return nil, fmt.Errorf("client CA: %w", err)
	}
	return &ClientCA{source}, nil
}

func parseAuthorities(contents [][]byte) (*x509.CertPool, error) {
	all, err := cert.ParseCertsPEM(contents[0])
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, c := range all {
		pool.AddCert(c)
	}
	return pool, nil
}

// Pool returns the current certificates of the authorities.
func (a *ClientCA) Pool() *x509.CertPool { return a.source.Get() }

// Authenticate implements Authenticator.
func (a *ClientCA) Authenticate(r *http.Request) (User, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return User{}, false, nil
	}
	own := r.TLS.PeerCertificates[0]
	options := x509.VerifyOptions{
		Roots: a.Pool(), Intermediates: x509.NewCertPool(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range r.TLS.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	if _, err := own.Verify(options); err != nil {
		return User{}, false, fmt.Errorf("client certificate with the serial number %d: %w", own.SerialNumber, err)
	}
	fingerprint := sha256.Sum256(own.Raw)
	user, ok := authenticated(User{
		Username: own.Subject.CommonName, Groups: own.Subject.Organization,
		Extra: map[string]authenticationv1.ExtraValue{
			credentialID: {"X509SHA256=" + hex.EncodeToString(fingerprint[:])},
		},
	})
	return user, ok, nil
}
