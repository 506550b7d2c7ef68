package access_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/serve/access"
)

const issuerURL = "https://kubernetes.default.svc.cluster.local"

var clusterKeys = sync.OnceValue(func() (k struct {
	rsa   *rsa.PrivateKey
	ec    *ecdsa.PrivateKey
	other *rsa.PrivateKey
	weak  *rsa.PrivateKey
},
) {
	var err error
	must := func(e error) {
		if e != nil {
			panic(e)
		}
	}
	k.rsa, err = rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	k.other, err = rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	k.weak, err = rsa.GenerateKey(rand.Reader, 1024)
	must(err)
	k.ec, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	return k
})

func keySet(t testing.TB, keys ...jose.JSONWebKey) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func clusterIssuer(t testing.TB) access.Issuer {
	k := clusterKeys()
	return access.Issuer{URL: issuerURL, JWKS: keySet(t,
		jose.JSONWebKey{Key: k.rsa.Public(), KeyID: "rsa", Algorithm: "RS256", Use: "sig"},
		jose.JSONWebKey{Key: k.ec.Public(), KeyID: "ec", Algorithm: "ES256", Use: "sig"},
	)}
}

type claims map[string]any

func agentClaims() claims {
	now := time.Now()
	return claims{
		"iss": issuerURL, "aud": []string{issuerURL}, "sub": "system:serviceaccount:monitoring:agent", "jti": "id-1",
		"exp": now.Add(time.Hour).Unix(), "nbf": now.Unix(), "iat": now.Unix(),
		"kubernetes.io": claims{
			"namespace": "monitoring", "serviceaccount": claims{"name": "agent", "uid": "uid-sa"},
			"pod": claims{"name": "agent-x", "uid": "uid-pod"}, "node": claims{"name": "node-1", "uid": "uid-node"},
		},
	}
}

func with(changes claims) claims {
	c := agentClaims()
	for k, v := range changes {
		if v == nil {
			delete(c, k)
		} else {
			c[k] = v
		}
	}
	return c
}

func sign(t testing.TB, c claims, alg jose.SignatureAlgorithm, key any, id string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(map[string]any(c)).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func accounts(t testing.TB, i access.Issuer) *access.ServiceAccounts {
	t.Helper()
	a, err := access.NewServiceAccounts(i)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestServiceAccounts(t *testing.T) {
	k := clusterKeys()
	a := accounts(t, clusterIssuer(t))
	const name = "system:serviceaccount:monitoring:agent"
	u := known(t, a, withToken(sign(t, agentClaims(), jose.RS256, k.rsa, "rsa")), name)
	if u.UID != "uid-sa" || !slices.Equal(u.Groups, []string{
		"system:serviceaccounts", "system:serviceaccounts:monitoring", "system:authenticated",
	}) {
		t.Errorf("got %+v", u)
	}
	extra := map[string]string{}
	for key, v := range u.Extra {
		extra[key] = strings.Join(v, "|")
	}
	const p = "authentication.kubernetes.io/"
	if want := map[string]string{
		p + "pod-name": "agent-x", p + "pod-uid": "uid-pod", p + "node-name": "node-1", p + "node-uid": "uid-node",
		p + "credential-id": "JTI=id-1",
	}; !maps.Equal(extra, want) {
		t.Errorf("got the extra values %v", extra)
	}
	known(t, a, withToken(sign(t, agentClaims(), jose.ES256, k.ec, "ec")), name)
	known(t, a, withToken(sign(t, agentClaims(), jose.ES256, k.ec, "")), name)
	known(t, a, withToken(sign(t, with(claims{"aud": issuerURL}), jose.RS256, k.rsa, "rsa")), name)
	known(t, a, withToken(sign(t, with(claims{"aud": []string{"vault", issuerURL}}), jose.RS256, k.rsa, "rsa")), name)
	known(t, a, withToken(sign(t, with(claims{"nbf": nil, "iat": nil, "jti": nil}), jose.RS256, k.rsa, "rsa")), name)
	// Clock differences of up to a minute are tolerated.
	soon := time.Now().Add(30 * time.Second).Unix()
	known(t, a, withToken(sign(t, with(claims{"nbf": soon, "iat": soon}), jose.RS256, k.rsa, "rsa")), name)
}

func TestServiceAccountsRefuse(t *testing.T) {
	k := clusterKeys()
	a := accounts(t, clusterIssuer(t))
	now := time.Now()
	for what, c := range map[string]claims{
		"expired":              with(claims{"exp": now.Add(-2 * time.Minute).Unix()}),
		"not valid yet":        with(claims{"nbf": now.Add(2 * time.Minute).Unix()}),
		"issued in the future": with(claims{"iat": now.Add(2 * time.Minute).Unix()}),
		"without an expiry":    with(claims{"exp": nil}),
		"expires as text":      with(claims{"exp": "never"}),
		"other audience":       with(claims{"aud": []string{"vault"}}),
		"no audience":          with(claims{"aud": nil}),
		"empty audience":       with(claims{"aud": []string{}}),
		"no subject":           with(claims{"sub": nil}),
		"a person":             with(claims{"sub": "jane"}),
		"a node":               with(claims{"sub": "system:node:n"}),
		"other namespace":      with(claims{"sub": "system:serviceaccount:kube-system:agent"}),
		"other name":           with(claims{"sub": "system:serviceaccount:monitoring:admin"}),
		"no kubernetes claims": with(claims{"kubernetes.io": nil}),
		"odd kubernetes claim": with(claims{"kubernetes.io": "monitoring"}),
		"colon in a name": with(claims{
			"sub":           "system:serviceaccount:a:b:c",
			"kubernetes.io": claims{"namespace": "a:b", "serviceaccount": claims{"name": "c"}},
		}),
		"colon in the account's name": with(claims{
			"sub":           "system:serviceaccount:a:b:c",
			"kubernetes.io": claims{"namespace": "a", "serviceaccount": claims{"name": "b:c"}},
		}),
		"empty names": with(claims{
			"sub": "system:serviceaccount::", "kubernetes.io": claims{"serviceaccount": claims{}},
		}),
	} {
		t.Run(what, func(t *testing.T) {
			token := sign(t, c, jose.RS256, k.rsa, "rsa")
			if err := refusal(t, a, withToken(token)); strings.Contains(err.Error(), token) {
				t.Error("the token is in the error")
			}
		})
	}
	t.Run("other key", func(t *testing.T) {
		refused(t, a, withToken(sign(t, agentClaims(), jose.RS256, k.other, "rsa")))
		refused(t, a, withToken(sign(t, agentClaims(), jose.RS256, k.other, "")))
		refused(t, a, withToken(sign(t, agentClaims(), jose.RS256, k.rsa, "unknown")))
		refused(t, a, withToken(sign(t, agentClaims(), jose.RS256, k.rsa, "ec")))
	})
	t.Run("other algorithm", func(t *testing.T) {
		issuer := clusterIssuer(t)
		issuer.JWKS = keySet(t, jose.JSONWebKey{Key: k.rsa.Public(), KeyID: "rsa", Algorithm: "RS512"})
		refused(t, accounts(t, issuer), withToken(sign(t, agentClaims(), jose.RS256, k.rsa, "rsa")))
	})
	t.Run("changed", func(t *testing.T) {
		parts := strings.Split(sign(t, agentClaims(), jose.RS256, k.rsa, "rsa"), ".")
		payload, err := json.Marshal(with(claims{"jti": "id-2"}))
		if err != nil {
			t.Fatal(err)
		}
		parts[1] = base64.RawURLEncoding.EncodeToString(payload)
		refused(t, a, withToken(strings.Join(parts, ".")))
	})
}

// TestServiceAccountsIgnoreOtherTokens checks that other tokens are unknown, which is no error.
func TestServiceAccountsIgnoreOtherTokens(t *testing.T) {
	k := clusterKeys()
	a := accounts(t, clusterIssuer(t))
	unknown(t, a, httptest.NewRequest(http.MethodGet, "/", nil))
	unknown(t, a, withToken(access.NewToken()))
	unknown(t, a, withToken("a.b.c"))
	unknown(t, a, withToken("..."))
	unknown(t, a, withToken(sign(t, with(claims{"iss": "https://accounts.example.com"}), jose.RS256, k.rsa, "rsa")))
	unknown(t, a, withToken(sign(t, with(claims{"iss": nil}), jose.RS256, k.rsa, "rsa")))
	// These tokens are signed with the cluster's key, but with algorithms that API servers do not use.
	unknown(t, a, withToken(sign(t, agentClaims(), jose.RS512, k.rsa, "rsa")))
	unknown(t, a, withToken(sign(t, agentClaims(), jose.PS256, k.rsa, "rsa")))

	body := strings.Split(sign(t, agentClaims(), jose.RS256, k.rsa, "rsa"), ".")[1]
	encode := base64.RawURLEncoding.EncodeToString
	for _, alg := range []string{"none", "None", "nOnE", ""} {
		unknown(t, a, withToken(encode([]byte(`{"alg":"`+alg+`","kid":"rsa"}`))+"."+body+"."))
		unknown(t, a, withToken(encode([]byte(`{"alg":"`+alg+`","kid":"rsa"}`))+"."+body+".AAAA"))
	}
	// If HMAC were accepted, the public key would be its secret.
	der, err := x509.MarshalPKIXPublicKey(k.rsa.Public())
	if err != nil {
		t.Fatal(err)
	}
	for _, alg := range []jose.SignatureAlgorithm{jose.HS256, jose.HS384, jose.HS512} {
		unknown(t, a, withToken(sign(t, agentClaims(), alg, der, "rsa")))
	}
	// The token's own header contains the key that has signed it.
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: k.other},
		(&jose.SignerOptions{EmbedJWK: true}))
	if err != nil {
		t.Fatal(err)
	}
	own, err := jwt.Signed(signer).Claims(map[string]any(agentClaims())).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	refused(t, a, withToken(own))

	long := with(claims{"filler": strings.Repeat("x", 16<<10)})
	refused(t, a, withToken(sign(t, long, jose.RS256, k.rsa, "rsa")))
}

func TestServiceAccountsAudiences(t *testing.T) {
	k := clusterKeys()
	issuer := clusterIssuer(t)
	issuer.Audiences = []string{"larder", "edge"}
	a := accounts(t, issuer)
	refused(t, a, withToken(sign(t, agentClaims(), jose.RS256, k.rsa, "rsa")))
	for _, aud := range issuer.Audiences {
		known(t, a, withToken(sign(t, with(claims{"aud": []string{aud}}), jose.RS256, k.rsa, "rsa")),
			"system:serviceaccount:monitoring:agent")
	}
}

func TestIssuerIsStored(t *testing.T) {
	issuer := clusterIssuer(t)
	issuer.Audiences = []string{"larder"}
	data, err := json.Marshal(issuer)
	if err != nil {
		t.Fatal(err)
	}
	var again access.Issuer
	if err := json.Unmarshal(data, &again); err != nil || !reflect.DeepEqual(again, issuer) {
		t.Errorf("%v: %s", err, data)
	}
}

func TestIssuerChanges(t *testing.T) {
	k := clusterKeys()
	issuer := clusterIssuer(t)
	a := accounts(t, issuer)
	fresh := access.Issuer{URL: issuerURL, JWKS: keySet(t, jose.JSONWebKey{Key: k.other.Public(), KeyID: "new"})}
	old, renewed := sign(t, agentClaims(), jose.RS256, k.rsa, "rsa"), sign(t, agentClaims(), jose.RS256, k.other, "new")
	refused(t, a, withToken(renewed))
	if err := a.SetIssuer(fresh); err != nil {
		t.Fatal(err)
	}
	refused(t, a, withToken(old))
	known(t, a, withToken(renewed), "system:serviceaccount:monitoring:agent")

	for what, bad := range map[string]access.Issuer{
		"no URL":      {JWKS: issuer.JWKS},
		"no keys":     {URL: issuerURL},
		"empty":       {URL: issuerURL, JWKS: keySet(t)},
		"no JSON":     {URL: issuerURL, JWKS: json.RawMessage("keys")},
		"too large":   {URL: issuerURL, JWKS: append(slices.Clone(issuer.JWKS), strings.Repeat(" ", 257<<10)...)},
		"private key": {URL: issuerURL, JWKS: keySet(t, jose.JSONWebKey{Key: k.rsa})},
		"HMAC":        {URL: issuerURL, JWKS: keySet(t, jose.JSONWebKey{Key: []byte("0123456789abcdef0123456789abcdef")})},
		"weak":        {URL: issuerURL, JWKS: keySet(t, jose.JSONWebKey{Key: k.weak.Public()})},
		"encryption":  {URL: issuerURL, JWKS: keySet(t, jose.JSONWebKey{Key: k.rsa.Public(), Use: "enc"})},
		"too many":    {URL: issuerURL, JWKS: keySet(t, slices.Repeat([]jose.JSONWebKey{{Key: k.rsa.Public()}}, 65)...)},
	} {
		if err := a.SetIssuer(bad); err == nil {
			t.Errorf("%s: was taken", what)
		}
	}
	known(t, a, withToken(renewed), "system:serviceaccount:monitoring:agent")
}

func TestFetchIssuer(t *testing.T) {
	issuer := clusterIssuer(t)
	documents := map[string]string{
		"/.well-known/openid-configuration": `{"issuer":"` + issuerURL + `","jwks_uri":"https://elsewhere.invalid/"}`,
		"/openid/v1/jwks":                   string(issuer.JWKS),
	}
	config := &rest.Config{Host: "http://api.invalid", Transport: transport(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		if text, ok := documents[r.URL.Path]; ok {
			_, _ = w.WriteString(text)
		} else {
			http.NotFound(w, r)
		}
		return w.Result(), nil
	})}
	config.NegotiatedSerializer = scheme.Codecs
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	got, err := access.FetchIssuer(t.Context(), client)
	if err != nil || !reflect.DeepEqual(got, issuer) {
		t.Fatalf("got %+v, %v", got, err)
	}
	documents["/openid/v1/jwks"] = `{"keys":[]}`
	if _, err := access.FetchIssuer(t.Context(), client); err == nil {
		t.Error("an issuer without keys was taken")
	}
	delete(documents, "/openid/v1/jwks")
	if _, err := access.FetchIssuer(t.Context(), client); err == nil {
		t.Error("a cluster without keys was taken")
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
