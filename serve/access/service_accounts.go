package access

import (
	"context"
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/client-go/rest"
)

// ServiceAccounts authenticates service-account tokens with the cluster's public keys, without the cluster.
//
// ServiceAccounts cannot see whether the Pod, Node, Secret or ServiceAccount that a token is bound to still exists. A
// token stays valid until it expires: after an hour by default, and after up to a year if API servers extend it
// (--service-account-extend-token-expiration). Therefore use ServiceAccounts behind an Upstream, as
// UpstreamOptions.Accounts. Tokens of Secrets are rejected, since they do not expire.
type ServiceAccounts struct {
	issuer atomic.Pointer[parsedIssuer]
	// issued is the latest issue time of all verified tokens, in Unix seconds.
	issued atomic.Int64
}

// clockError is the tolerated error of the local clock. If a token expired longer ago than clockError by the local
// clock, the clock may be wrong and the token valid, so the API server decides. If another token was issued after that
// token's expiry, the token is expired for certain.
const clockError = 2 * time.Hour

// NewServiceAccounts returns the authenticator of the service-account tokens of one issuer, that is, one cluster.
func NewServiceAccounts(i Issuer) (*ServiceAccounts, error) {
	s := &ServiceAccounts{}
	return s, s.SetIssuer(i)
}

// SetIssuer replaces the issuer's data, for instance after a rotation of the cluster's keys. If SetIssuer fails, the
// old data stay in use.
func (s *ServiceAccounts) SetIssuer(i Issuer) error {
	parsed, err := parseIssuer(i)
	if err != nil {
		return fmt.Errorf("service accounts: %w", err)
	}
	s.issuer.Store(parsed)
	return nil
}

// kubernetesClaims are the claims that API servers add to service-account tokens; see
// k8s.io/kubernetes/pkg/serviceaccount.
type kubernetesClaims struct {
	Kubernetes struct {
		Namespace      string      `json:"namespace"`
		ServiceAccount boundObject `json:"serviceaccount"`
		Pod            boundObject `json:"pod"`
		Node           boundObject `json:"node"`
	} `json:"kubernetes.io"`
}

type boundObject struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// These errors are the reasons for rejecting a service-account token. Their texts contain no part of the token.
var (
	errSignature = errors.New("none of the cluster's keys has signed the service-account token, or it cannot be read")
	errForged    = errors.New("the service-account token's signature is not of the cluster's key that it names")
	errExpired   = errors.New("the service-account token has expired")
	errClock     = errors.New("the service-account token has expired, if the clock of this machine is right")
	errClaims    = errors.New("the service-account token's claims are not what API servers write")
	errNoExpiry  = errors.New("the service-account token does not expire: it is of a Secret, not projected")
	errAudience  = errors.New("the service-account token is for another audience")
	errTime      = errors.New("the service-account token is not valid yet")
)

// isFinal reports whether the API server would certainly reject the token as well. After any other error of verify the
// API server may accept the token, for example if a newer key has signed it.
func isFinal(err error) bool { return errors.Is(err, errForged) || errors.Is(err, errExpired) }

// Authenticate returns false without an error for tokens of other issuers, and for tokens that are not signed JWTs with
// one of the algorithms of API servers.
func (s *ServiceAccounts) Authenticate(r *http.Request) (User, bool, error) {
	text, err := bearer(r)
	if text == "" || err != nil {
		return User{}, false, err
	}
	issuer := s.issuer.Load()
	token, err := jwt.ParseSigned(text, algorithms)
	if err != nil {
		return User{}, false, nil //nolint:nilerr // the token is not a service-account token
	}
	var unverified struct {
		Issuer string `json:"iss"`
	}
	if err := token.UnsafeClaimsWithoutVerification(&unverified); err != nil || unverified.Issuer != issuer.url {
		return User{}, false, nil //nolint:nilerr // the token is of another issuer
	}
	var public jwt.Claims
	var private kubernetesClaims
	if err := s.check(issuer.verify(token, &public, &private), &public); err != nil {
		return User{}, false, err
	}
	user, err := serviceAccount(&public, &private)
	if err != nil {
		return User{}, false, err
	}
	return user, true, nil
}

// check returns err, the result of verify. It returns errClock instead if the token expired longer than clockError ago,
// but only by the local clock, which may be wrong. claims are those of the token; empty if no key has signed it.
func (s *ServiceAccounts) check(err error, claims *jwt.Claims) error {
	if claims.IssuedAt != nil {
		for at := claims.IssuedAt.Time().Unix(); ; {
			newest := s.issued.Load()
			if at <= newest || s.issued.CompareAndSwap(newest, at) {
				break
			}
		}
	}
	if !errors.Is(err, errExpired) {
		return err
	}
	end := claims.Expiry.Time().Add(jwt.DefaultLeeway)
	if time.Since(end) > clockError && end.Unix() >= s.issued.Load() {
		return errClock
	}
	return err
}

// verify reads the claims of a token, which one of the keys must have signed, and checks its validity. Like
// kube-apiserver it tolerates clock differences of one minute.
func (i *parsedIssuer) verify(token *jwt.JSONWebToken, public *jwt.Claims, private *kubernetesClaims) error {
	header := token.Headers[0]
	verified, named := false, false
	for _, key := range i.keys {
		named = named || header.KeyID != "" && key.KeyID == header.KeyID
		if header.KeyID != "" && key.KeyID != header.KeyID || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		if verified = token.Claims(key.Key, public, private) == nil; verified {
			break
		}
	}
	switch {
	case !verified && named:
		return errForged
	case !verified:
		return errSignature
	}
	if public.Expiry == nil {
		return errNoExpiry
	}
	switch err := public.Validate(jwt.Expected{Issuer: i.url, AnyAudience: i.audiences}); {
	case err == nil:
		return nil
	case errors.Is(err, jwt.ErrInvalidAudience):
		return errAudience
	case errors.Is(err, jwt.ErrExpired):
		return errExpired
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return errTime
	}
	return errClaims
}

// serviceAccount returns the user of verified claims, with the groups and extra values that API servers add.
func serviceAccount(public *jwt.Claims, private *kubernetesClaims) (User, error) {
	k := private.Kubernetes
	const prefix = "system:serviceaccount:"
	switch {
	case public.Subject != prefix+k.Namespace+":"+k.ServiceAccount.Name,
		len(validation.ValidateNamespaceName(k.Namespace, false)) > 0,
		len(validation.ValidateServiceAccountName(k.ServiceAccount.Name, false)) > 0:
		return User{}, errClaims
	}
	extra := map[string]authenticationv1.ExtraValue{}
	add := func(key, value string) {
		if value != "" {
			extra[key] = authenticationv1.ExtraValue{value}
		}
	}
	add("authentication.kubernetes.io/pod-name", k.Pod.Name)
	add("authentication.kubernetes.io/pod-uid", k.Pod.UID)
	add("authentication.kubernetes.io/node-name", k.Node.Name)
	add("authentication.kubernetes.io/node-uid", k.Node.UID)
	if public.ID != "" {
		add(credentialID, "JTI="+public.ID)
	}
	return User{
		Username: public.Subject, UID: k.ServiceAccount.UID, Extra: extra,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + k.Namespace, groupAuthenticated},
	}, nil
}

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
