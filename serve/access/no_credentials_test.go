package access_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/serve/access"
)

// TestNoCredentials checks that no log message and no error contains a token, client-go's logs included.
func TestNoCredentials(t *testing.T) {
	var klogged bytes.Buffer
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	state := klog.CaptureState()
	defer state.Restore()
	for name, value := range map[string]string{"logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL", "v": "10"} {
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	klog.SetOutput(&klogged)

	k := clusterKeys()
	static, fileToken, unknown := access.NewToken(), access.NewToken(), access.NewToken()
	account := sign(t, agentClaims(), jose.RS256, k.rsa, "rsa")
	forged := sign(t, agentClaims(), jose.RS256, k.other, "rsa")
	expired := sign(t, with(claims{"exp": 1}), jose.RS256, k.rsa, "rsa")
	long := strings.Repeat("long-token-", 3000)
	v := newReviewer()
	v.tokens[account] = jane
	secrets := map[string]string{
		"static": static, "file": fileToken, "unknown": unknown, "account": account, "forged": forged, "expired": expired,
		"long": long[:200], "own": v.config().BearerToken, "spelled out": "spelled-out-token",
	}

	var l logs
	log := l.logger()
	var texts []string
	note := func(what string, err error) {
		if err != nil {
			texts = append(texts, what+": "+err.Error(), fmt.Sprintf("%+v %#v", err, err))
		}
	}
	own, err := access.NewStaticToken(static, "larder")
	note("static", err)
	path := file(t, fileToken+",joe,uid\n"+fileToken+",joe,uid\n,x,y\n")
	tokens, err := access.NewTokenFile(path, log)
	note("tokens", err)
	for _, text := range []string{fileToken, fileToken + ",joe", fileToken + ",\"joe", "\"" + fileToken + "\"x,joe,uid"} {
		_, err := access.NewTokenFile(file(t, text), log)
		note("token file", err)
	}
	_, err = access.NewStaticToken(static[:20], "larder")
	note("short", err)

	complaints := []string{"", "expired", "unknown: TOKEN"}
	faults := []error{nil, syscall.ECONNREFUSED, errors.New("malformed response")}
	statuses := []int{0, 401, 403, 500, 503, 201}
	run := func(a access.Authenticator, z access.Authorizer) {
		reviews := access.Reviews{Authorizer: z}
		h := access.NewHandler(reviews, access.HandlerOptions{Authenticator: a, Logger: &log})
		for _, secret := range append(slicesOf(secrets), long) {
			r := withToken(secret)
			user, _, err := a.Authenticate(r)
			note("authenticate", err)
			note("require", access.Require(t.Context(), z, read(user, "list", "pods", "")))
			for _, target := range []string{accessPath, selfPath, "/api/v1/pods"} {
				r := httptest.NewRequest(http.MethodPost, target, strings.NewReader("{}"))
				r.Header.Set("Authorization", "Bearer "+secret)
				w := answer(h, r)
				texts = append(texts, fmt.Sprint(w.Header()), w.Body.String())
				r.Header.Set("Impersonate-User", "admin")
				texts = append(texts, answer(h, r).Body.String())
			}
			r.Header.Add("Authorization", "Bearer "+secret)
			_, _, err = a.Authenticate(r)
			note("twice", err)
		}
	}
	for _, complaint := range complaints {
		for _, fault := range faults {
			for _, status := range statuses {
				v.set(func() { v.complaint, v.fault, v.status, v.body = complaint, fault, status, "{" })
				u := upstream(t, v, access.UpstreamOptions{Logger: &log, Accounts: accounts(t, clusterIssuer(t))})
				run(access.Union(own, tokens, u),
					access.FallbackAuthorizer(u, access.Nothing{}))
			}
		}
	}
	klog.V(10).Info("the last line")
	klog.Flush()
	texts = append(texts, l.text(), klogged.String())
	if !strings.Contains(klogged.String(), "the last line") {
		t.Error("what client-go logs is not captured")
	}
	all := strings.Join(texts, "\n")
	if len(texts) < 1000 {
		t.Errorf("only %d texts were searched", len(texts))
	}
	for name, secret := range secrets {
		for _, part := range append(strings.Split(secret, "."), secret) {
			if len(part) >= 16 && strings.Contains(all, part) {
				at := strings.Index(all, part)
				t.Errorf("the token %s is in %q", name, all[max(0, at-200):min(len(all), at+50)])
				break
			}
		}
	}
}

func slicesOf(m map[string]string) (values []string) {
	for _, v := range m {
		values = append(values, v)
	}
	return values
}
