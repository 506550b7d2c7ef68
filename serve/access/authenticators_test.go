package access_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/larder-dev/larder/serve/access"
	"github.com/larder-dev/larder/serve/access/internal/testca"
)

func TestStaticToken(t *testing.T) {
	token := access.NewToken()
	if len(token) != 50 || token == access.NewToken() || !access.IsNewToken(token) {
		t.Fatalf("not random, or not known as one of ours: %d characters", len(token))
	}
	if access.IsNewToken("eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJsIn0") || access.IsNewToken("larder-e2e") {
		t.Error("a token of somebody else is taken for one of ours")
	}
	a, err := access.NewStaticToken(token, "larder")
	if err != nil {
		t.Fatal(err)
	}
	u := known(t, a, withToken(token), "larder")
	if !slices.Equal(u.Groups, []string{"system:authenticated"}) || u.UID == "" || u.UID != a.User().UID {
		t.Errorf("got %+v", u)
	}
	unknown(t, a, withToken(access.NewToken()))
	unknown(t, a, withToken(token[:42]))
	unknown(t, a, withToken(token+"x"))
	unknown(t, a, httptest.NewRequest(http.MethodGet, "/", nil))

	b, err := access.NewStaticToken(token, "larder")
	if err != nil {
		t.Fatal(err)
	}
	if a.User().UID == b.User().UID {
		t.Error("two users of the same name cannot be told apart")
	}
	for _, bad := range []struct{ token, name string }{
		{"short", "larder"}, {"", "larder"}, {token, ""}, {token, "system:anonymous"},
	} {
		if _, err := access.NewStaticToken(bad.token, bad.name); err == nil {
			t.Errorf("a token of %d characters for %q was taken", len(bad.token), bad.name)
		}
	}
}

func TestAuthorizationHeader(t *testing.T) {
	token := access.NewToken()
	a, err := access.NewStaticToken(token, "larder")
	if err != nil {
		t.Fatal(err)
	}
	with := func(headers ...string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["Authorization"] = headers
		return r
	}
	known(t, a, with("bearer "+token), "larder")
	known(t, a, with("  BEARER "+token+" "), "larder")
	unknown(t, a, with("Basic "+token))
	unknown(t, a, with("Bearer"))
	unknown(t, a, with("Bearer "))
	unknown(t, a, with(token))
	unknown(t, a, with(""))
	unknown(t, a, with())
	refused(t, a, with("Bearer "+token, "Bearer "+access.NewToken()))
	refused(t, a, with("Bearer "+strings.Repeat("x", 17<<10)))
	unknown(t, a, httptest.NewRequest(http.MethodGet, "/?access_token="+token, nil))
}

func TestTokenFile(t *testing.T) {
	path := file(t, `token-of-jane,jane,uid-1,"ops,dev"
token-of-joe,joe,uid-2

token-of-agent,system:serviceaccount:a:b,uid-3,system:serviceaccounts
,empty,uid
token-of-nobody,system:anonymous,uid
token-of-nameless,,uid
token-of-stranger,stranger,uid,system:unauthenticated
token-twice,first,uid
token-twice,second,uid
`)
	var l logs
	a, err := access.NewTokenFile(path, l.logger())
	if err != nil {
		t.Fatal(err)
	}
	jane := known(t, a, withToken("token-of-jane"), "jane")
	if jane.UID != "uid-1" || !slices.Equal(jane.Groups, []string{"ops", "dev", "system:authenticated"}) {
		t.Errorf("got %+v", jane)
	}
	if joe := known(t, a, withToken("token-of-joe"), "joe"); !slices.Equal(joe.Groups, []string{"system:authenticated"}) {
		t.Errorf("got %+v", joe)
	}
	known(t, a, withToken("token-of-agent"), "system:serviceaccount:a:b")
	known(t, a, withToken("token-twice"), "second")
	for _, token := range []string{"", "token-of-nobody", "token-of-nameless", "token-of-stranger", "jane", "token-of"} {
		unknown(t, a, withToken(token))
	}
	for _, line := range []string{`"line"=5`, `"line"=6`, `"line"=7`, `"line"=8`, `"line"=10`} {
		if !strings.Contains(l.text(), line) {
			t.Errorf("nothing is logged of %s in\n%s", line, l.text())
		}
	}
	if strings.Contains(l.text(), "token-") {
		t.Errorf("a token is in the log:\n%s", l.text())
	}
}

func TestTokenFileIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"two columns":      "token-of-jane,jane\n",
		"quote":            "token-of-jane,jane,\"uid\n",
		"quote in between": "token-of-jane,ja\"ne,uid\n",
	} {
		_, err := access.NewTokenFile(file(t, text), logr.Discard())
		if err == nil || strings.Contains(err.Error(), "token-of") || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := access.NewTokenFile("/nonexistent", logr.Discard()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := access.NewTokenFile(t.TempDir(), logr.Discard()); err == nil {
		t.Error("a directory was read")
	}
}

func TestTokenFileChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := file(t, "token-of-jane,jane,1\n")
		var l logs
		a, err := access.NewTokenFile(path, l.logger())
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, "token-of-jack,jack,1\n") // as long as the old file
		known(t, a, withToken("token-of-jane"), "jane")
		time.Sleep(time.Second)
		unknown(t, a, withToken("token-of-jane"))
		known(t, a, withToken("token-of-jack"), "jack")

		write(t, path, "token-of-jack,jack\n") // invalid, or half written
		time.Sleep(time.Second)
		known(t, a, withToken("token-of-jack"), "jack")
		if strings.Contains(l.text(), "Keeping") {
			t.Errorf("a file that may be half written is logged:\n%s", l.text())
		}
		for range 3 {
			time.Sleep(time.Second)
			known(t, a, withToken("token-of-jack"), "jack")
		}
		if strings.Count(l.text(), "Keeping") != 1 {
			t.Errorf("not logged once:\n%s", l.text())
		}

		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(time.Second)
			known(t, a, withToken("token-of-jack"), "jack")
		}
		if strings.Count(l.text(), "Keeping") != 2 {
			t.Errorf("that the file is gone is not logged once:\n%s", l.text())
		}
		write(t, path, "")
		time.Sleep(time.Second)
		unknown(t, a, withToken("token-of-jack"))
		if strings.Contains(l.text(), "token-of") {
			t.Errorf("a token is in the log:\n%s", l.text())
		}
	})
}

func withCertificate(pairs ...tls.Certificate) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.TLS = &tls.ConnectionState{}
	for _, p := range pairs {
		r.TLS.PeerCertificates = append(r.TLS.PeerCertificates, p.Leaf)
	}
	return r
}

func TestClientCA(t *testing.T) {
	ca, other := testca.New(t, "ca"), testca.New(t, "other")
	a, err := access.NewClientCA(file(t, string(ca.PEM())), logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	jane := known(t, a, withCertificate(ca.Client("jane", "dev", "ops")), "jane")
	if !slices.Equal(jane.Groups, []string{"dev", "ops", "system:authenticated"}) {
		t.Errorf("got the groups %v", jane.Groups)
	}
	if id := jane.Extra["authentication.kubernetes.io/credential-id"]; len(id) != 1 ||
		!strings.HasPrefix(id[0], "X509SHA256=") {
		t.Errorf("got the extra values %v", jane.Extra)
	}
	unknown(t, a, httptest.NewRequest(http.MethodGet, "/", nil))
	unknown(t, a, withCertificate())
	unknown(t, a, withCertificate(ca.Client("", "ops")))
	unknown(t, a, withCertificate(ca.Client("system:anonymous")))
	unknown(t, a, withCertificate(ca.Client("jane", "system:unauthenticated")))
	refused(t, a, withCertificate(other.Client("jane")))
	refused(t, a, withCertificate(ca.Server("jane")))
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	refused(t, a, withCertificate(ca.Sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "jane"}, ExtKeyUsage: usage, NotAfter: time.Now().Add(-time.Minute),
	})))
	refused(t, a, withCertificate(ca.Sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "jane"}, ExtKeyUsage: usage,
		NotBefore: time.Now().Add(time.Minute), NotAfter: time.Now().Add(time.Hour),
	})))
	// The user jane has signed this certificate with her own certificate.
	refused(t, a, withCertificate(other.Client("root"), ca.Client("jane")))
}

func TestClientCAChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, fresh := testca.New(t, "old"), testca.New(t, "fresh")
		path := file(t, string(old.PEM()))
		var l logs
		a, err := access.NewClientCA(path, l.logger())
		if err != nil {
			t.Fatal(err)
		}
		janes, joes := old.Client("jane"), fresh.Client("joe")
		known(t, a, withCertificate(janes), "jane")
		write(t, path, "no certificate")
		for range 2 {
			time.Sleep(time.Second)
			known(t, a, withCertificate(janes), "jane")
		}
		if !strings.Contains(l.text(), "Keeping") {
			t.Error("a damaged file is not logged")
		}
		write(t, path, string(fresh.PEM()))
		time.Sleep(time.Second)
		refused(t, a, withCertificate(janes))
		known(t, a, withCertificate(joes), "joe")
	})
	if _, err := access.NewClientCA(file(t, ""), logr.Discard()); err == nil {
		t.Error("an empty file was read")
	}
}

type fake struct {
	user  access.User
	err   error
	asked int
}

func (f *fake) Authenticate(*http.Request) (access.User, bool, error) {
	f.asked++
	return f.user, f.user.Username != "", f.err
}

func TestUnion(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	nobody, jane, wrong := &fake{}, &fake{user: user("jane")}, &fake{err: errors.New("wrong")}
	unknown(t, access.Union(), r)
	unknown(t, access.Union(nobody, nobody), r)
	known(t, access.Union(nobody, jane), r, "jane")
	known(t, access.Union(wrong, jane), r, "jane")
	if err := refusal(t, access.Union(wrong, nobody), r); !errors.Is(err, wrong.err) {
		t.Error(err)
	}
	last := &fake{user: user("joe")}
	known(t, access.Union(jane, last), r, "jane")
	if last.asked != 0 {
		t.Error("an authenticator was asked though the user was known")
	}
}

// TestAccountsWhileUpstreamIsAway checks that UpstreamOptions.Accounts decides only while the API server is
// unreachable. Only the API server knows whether a token's Pod still exists.
func TestAccountsWhileUpstreamIsAway(t *testing.T) {
	log := logr.Discard()
	upstreamOf := func(token string, u access.User, fault error, accounts access.Authenticator) *access.Upstream {
		v := newReviewer()
		v.fault = fault
		if u.Username != "" {
			v.tokens[token] = u
		}
		return upstream(t, v, access.UpstreamOptions{Accounts: accounts, Logger: &log})
	}
	r := withToken("token")
	offline, nobody := &fake{user: user("jane")}, access.User{}
	known(t, upstreamOf("token", nobody, io.EOF, offline), r, "jane")
	unknown(t, upstreamOf("token", nobody, nil, offline), r)
	known(t, upstreamOf("token", user("joe"), nil, offline), r, "joe")
	if err := refusal(t, upstreamOf("token", nobody, io.EOF, &fake{}), r); !errors.Is(err, access.ErrUnreachable) {
		t.Errorf("a token that nobody could judge is refused: %v", err)
	}
	expired := errors.New("expired")
	err := refusal(t, upstreamOf("token", nobody, io.EOF, &fake{err: expired}), r)
	if !errors.Is(err, expired) || errors.Is(err, access.ErrUnreachable) {
		t.Error(err)
	}
}
