package access_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/serve/access"
)

// FuzzTokenFile checks that an error contains none of the file's text, and that an invalid file has no tokens.
func FuzzTokenFile(f *testing.F) {
	f.Add([]byte(",jane,uid,\"a,b\"\n"))
	f.Add([]byte(",jane"))
	f.Add([]byte("\",\n\"x"))
	f.Add([]byte(",system:anonymous,u\n,,u\na,b,c,system:unauthenticated\n"))
	f.Add([]byte("\xff\x00\r\n,,,,"))
	const secret = "token-0123456789"
	f.Fuzz(func(t *testing.T, data []byte) {
		users, err := access.ParseTokens(append([]byte(secret), data...))
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the token is in the error: %v", err)
		}
		for _, u := range users {
			if u.Username == "" || u.Username == "system:anonymous" || !slices.Contains(u.Groups, "system:authenticated") ||
				slices.Contains(u.Groups, "system:unauthenticated") {
				t.Errorf("%+v is known", u)
			}
		}
	})
}

// FuzzOfflineAccess checks that only users with a rule have rights, and that Secrets must be named.
func FuzzOfflineAccess(f *testing.F) {
	f.Add([]byte(accessFile))
	f.Add([]byte("apiVersion: larder.dev/v1alpha1\nkind: OfflineAccess\nrules: [{users: [jane], resources: [secrets], namespaces: ['*']}]"))
	f.Add([]byte("apiVersion: larder.dev/v1alpha1\nkind: OfflineAccess\nrules: [{groups: [\"x\"], resources: [\"*\"], namespaces: [a]}]"))
	f.Add([]byte("{apiVersion: larder.dev/v1alpha1, kind: OfflineAccess, rules: [&a {users: [j]}, *a]}"))
	f.Add([]byte("a: &a [*a, *a]"))
	f.Add([]byte("--- !!binary x"))
	f.Add([]byte("?"))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := access.ParseAccess(data)
		if err != nil {
			return
		}
		may := func(u access.User, resource string) bool {
			d, err := o.Authorize(t.Context(), read(u, "get", resource, "web"))
			return err == nil && d.Allowed
		}
		if nobody := user("unknown-user", "of-no-group"); may(nobody, "pods") &&
			!bytes.Contains(data, []byte("authenticated")) {
			t.Error("an unknown user may get pods")
		}
		for _, u := range []access.User{user("jane"), user("joe", "ops"), {}} {
			// In a double-quoted YAML string, the word may be written with escapes.
			if may(u, "secrets") && !bytes.Contains(data, []byte("secrets")) && !bytes.Contains(data, []byte(`\`)) {
				t.Errorf("%s may get Secrets that are not named", u.Username)
			}
		}
	})
}

// FuzzServiceAccountToken checks that a token without the cluster's signature is never authenticated. A signed token is
// authenticated only if its subject and its private claims name the same service account.
func FuzzServiceAccountToken(f *testing.F) {
	k := clusterKeys()
	a := accounts(f, clusterIssuer(f))
	payload, err := json.Marshal(agentClaims())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sign(f, agentClaims(), jose.RS256, k.rsa, "rsa"), payload)
	f.Add(sign(f, agentClaims(), jose.ES256, k.ec, "ec"), []byte(`{"iss":"`+issuerURL+`","exp":9999999999}`))
	f.Add(sign(f, agentClaims(), jose.RS256, k.other, "rsa"), []byte(`{"iss":1}`))
	f.Add("eyJhbGciOiJub25lIn0.e30.", []byte(`{"iss":"`+issuerURL+`","aud":"`+issuerURL+`","exp":1e300}`))
	f.Add("..", []byte(strings.Repeat("[", 5000)))
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: k.ec, KeyID: "ec"}}, nil)
	if err != nil {
		f.Fatal(err)
	}
	ask := func(t *testing.T, token string) (access.User, bool) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		user, ok, err := a.Authenticate(r)
		if ok && err != nil || !ok && user.Username != "" {
			t.Errorf("got %+v, %v, %v", user, ok, err)
		}
		if err != nil && len(token) > 60 && strings.Contains(err.Error(), token) {
			t.Errorf("the token is in the error: %v", err)
		}
		return user, ok
	}
	f.Fuzz(func(t *testing.T, token string, payload []byte) {
		if user, ok := ask(t, token); ok && user.Username != "system:serviceaccount:monitoring:agent" {
			t.Errorf("got %+v", user)
		}
		signed, err := signer.Sign(payload)
		if err != nil {
			t.Fatal(err)
		}
		token, err = signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		user, ok := ask(t, token)
		if !ok {
			return
		}
		rest, found := strings.CutPrefix(user.Username, "system:serviceaccount:")
		namespace, name, _ := strings.Cut(rest, ":")
		if !found || namespace == "" || name == "" || strings.Contains(name, ":") ||
			!slices.Contains(user.Groups, "system:serviceaccounts:"+namespace) ||
			!bytes.Contains(payload, []byte("exp")) && !bytes.Contains(payload, []byte(`\`)) {
			t.Errorf("got %+v by %q", user, payload)
		}
	})
}

func FuzzReviewBody(f *testing.F) {
	h := handler(access.Reviews{Authorizer: fixed{Decision: access.Decision{Allowed: true}}}, byToken{}, access.Limits{})
	types := []string{runtime.ContentTypeJSON, runtime.ContentTypeYAML, runtime.ContentTypeProtobuf}
	paths := []string{accessPath, rulesPath, selfPath}
	for i, contentType := range types {
		f.Add(uint8(i), uint8(0), encode(f, contentType, accessReview("list", "pods")))
		f.Add(uint8(i), uint8(2), encode(f, contentType, &authenticationv1.SelfSubjectReview{}))
		f.Add(uint8(i), uint8(1), []byte("spec: {namespace: web}"))
	}
	f.Add(uint8(1), uint8(0), []byte("a: &a [*a, *a]"))
	f.Add(uint8(0), uint8(0), []byte(strings.Repeat("[", 10_000)))
	f.Fuzz(func(t *testing.T, contentType, path uint8, body []byte) {
		r := httptest.NewRequest(http.MethodPost, paths[int(path)%len(paths)], bytes.NewReader(body))
		r.Header.Set("Authorization", "Bearer jane")
		r.Header.Set("Content-Type", types[int(contentType)%len(types)])
		w := answer(h, r)
		switch w.Code {
		case http.StatusCreated:
		case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
			decodeStatus(t, w)
		default:
			t.Errorf("got %d %s", w.Code, w.Body)
		}
	})
}
