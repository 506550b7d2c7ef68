package access

import (
	"context"
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
	"k8s.io/client-go/rest"
)

// Issuer has the data for verifying a cluster's service-account tokens without the API server. It can be stored as JSON
// and contains no secrets.
type Issuer struct {
	// URL is the value of the "iss" claim in the cluster's tokens.
	URL string `json:"issuer"`
	// Audiences are the accepted audiences of tokens. Default: URL, which is the default audience of API servers.
	Audiences []string `json:"audiences,omitempty"`
	// JWKS is the set of public keys that verify the tokens, as API servers serve it at /openid/v1/jwks.
	JWKS json.RawMessage `json:"jwks"`
}

// FetchIssuer reads the Issuer of a cluster from its API server. Audiences stays empty, since API servers do not
// publish their audiences. Every service account may read the issuer and its keys (ClusterRole
// system:service-account-issuer-discovery). client may be the REST client of any API group.
func FetchIssuer(ctx context.Context, client rest.Interface) (Issuer, error) {
	var issuer Issuer
	document, err := client.Get().AbsPath("/.well-known/openid-configuration").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(document, &issuer)
	}
	if err == nil {
		issuer.JWKS, err = client.Get().AbsPath("/openid/v1/jwks").DoRaw(ctx)
	}
	if err == nil {
		_, err = parseIssuer(Issuer{URL: issuer.URL, JWKS: issuer.JWKS})
	}
	if err != nil {
		return Issuer{}, fmt.Errorf("the keys of the cluster's service accounts: %w", err)
	}
	return Issuer{URL: issuer.URL, JWKS: issuer.JWKS}, nil
}

const (
	maxJWKS = 256 << 10
	maxKeys = 64
	minRSA  = 2048
)

// algorithms are the signature algorithms that API servers use for tokens. HMAC is excluded, since the public key would
// be its secret. "none" is excluded, since it means no signature.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512}

type parsedIssuer struct {
	url       string
	audiences []string
	keys      []jose.JSONWebKey
}

func parseIssuer(i Issuer) (*parsedIssuer, error) {
	p := &parsedIssuer{url: i.URL, audiences: i.Audiences}
	if i.URL == "" {
		return nil, errors.New("the issuer has no URL")
	}
	if len(p.audiences) == 0 {
		p.audiences = []string{i.URL}
	}
	if len(i.JWKS) > maxJWKS {
		return nil, fmt.Errorf("the key set is larger than %d KiB", maxJWKS>>10)
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(i.JWKS, &set); err != nil {
		return nil, fmt.Errorf("the key set: %w", err)
	}
	if len(set.Keys) == 0 || len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the key set has %d keys; there must be 1 to %d", len(set.Keys), maxKeys)
	}
	for n, key := range set.Keys {
		if problem := badKey(key); problem != "" {
			return nil, fmt.Errorf("key %d of the key set: %s", n, problem)
		}
	}
	p.keys = set.Keys
	return p, nil
}

func badKey(key jose.JSONWebKey) string {
	if !key.Valid() {
		return "it is damaged"
	}
	if key.Use != "" && key.Use != "sig" {
		return "it is not for signatures"
	}
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < minRSA {
			return fmt.Sprintf("it is an RSA key of %d bits only", bits)
		}
	case *ecdsa.PublicKey:
	default:
		return "it is neither a public RSA key nor a public ECDSA key"
	}
	return ""
}
