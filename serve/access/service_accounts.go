package access

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/validation"
)

// ServiceAccounts is an Authenticator by service-account tokens that a cluster's keys have signed, without the cluster.
//
// What only the cluster knows it cannot see: whether the Pod, the Node, the Secret or the ServiceAccount that a token
// is bound to still exists. Until it expires a token counts, one hour by default, and up to a year where API servers
// extend it (--service-account-extend-token-expiration). So it belongs behind an Upstream: UpstreamOptions.Accounts.
// Tokens of Secrets, which do not expire, do not count.
type ServiceAccounts struct {
	issuer atomic.Pointer[parsedIssuer]
	issued atomic.Int64 // when the newest token that a key has signed was issued, in seconds of Unix
}

// clockError is the error of the local clock that is not looked for. A token that expired longer ago by that clock may
// still be valid, and the API server judges it. Another token that was issued after its expiry proves that it is not.
const clockError = 2 * time.Hour

// NewServiceAccounts returns the authenticator of an issuer's tokens.
func NewServiceAccounts(i Issuer) (*ServiceAccounts, error) {
	s := &ServiceAccounts{}
	return s, s.SetIssuer(i)
}

// SetIssuer replaces the issuer, since clusters change their keys. If it fails the old one stays.
func (s *ServiceAccounts) SetIssuer(i Issuer) error {
	parsed, err := parseIssuer(i)
	if err != nil {
		return fmt.Errorf("service accounts: %w", err)
	}
	s.issuer.Store(parsed)
	return nil
}

// kubernetesClaims are those of tokens that API servers issue; see k8s.io/kubernetes/pkg/serviceaccount.
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

// Why tokens are refused. None has anything of the token in it.
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

// isFinal reports whether a refusal needs no answer of the API server: it would refuse the token, too. All other errors
// may be of a token that it accepts, such as one that a newer key has signed.
func isFinal(err error) bool { return errors.Is(err, errForged) || errors.Is(err, errExpired) }

// Authenticate implements Authenticator. Tokens that are not signed as API servers do it, or have another issuer, are
// others' to know.
func (s *ServiceAccounts) Authenticate(r *http.Request) (User, bool, error) {
	text, err := bearer(r)
	if text == "" || err != nil {
		return User{}, false, err
	}
	issuer := s.issuer.Load()
	token, err := jwt.ParseSigned(text, algorithms)
	if err != nil {
		return User{}, false, nil //nolint:nilerr // it is no token of service accounts
	}
	var unverified struct {
		Issuer string `json:"iss"`
	}
	if err := token.UnsafeClaimsWithoutVerification(&unverified); err != nil || unverified.Issuer != issuer.url {
		return User{}, false, nil //nolint:nilerr // it is another issuer's
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

// check returns the result of verify, with errClock in place of errExpired while only the local clock says so. The
// claims are empty if no key has signed them.
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

// verify reads the claims of a token that one of the keys has signed and that counts now. As in kube-apiserver clocks
// may differ by a minute.
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

// serviceAccount returns the user that verified claims name, with what API servers add.
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
