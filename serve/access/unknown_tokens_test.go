package access_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/larder-dev/larder/serve/access"
)

func from(address, token string) *http.Request {
	r := withToken(token)
	r.RemoteAddr = address + ":1000"
	return r
}

// TestForgedTokens checks that unknown tokens are rejected without a TokenReview if they name the stored issuer and a
// stored key, but have a wrong signature or have expired. Every other token is sent to the API server: a token of an
// identity provider, an opaque token, a token of a Secret, a token for another audience, and a token signed with a
// rotated key (issue 37).
func TestForgedTokens(t *testing.T) {
	k := clusterKeys()
	v := newReviewer()
	u := upstream(t, v, access.UpstreamOptions{Accounts: accounts(t, clusterIssuer(t))})
	good := sign(t, agentClaims(), jose.RS256, k.rsa, "rsa")
	parts := strings.Split(good, ".")
	otherClaims := strings.Split(sign(t, with(claims{"jti": "2"}), jose.RS256, k.rsa, "rsa"), ".")[1]
	for name, token := range map[string]string{
		"another key":           sign(t, agentClaims(), jose.RS256, k.other, "rsa"),
		"another kind":          sign(t, agentClaims(), jose.RS256, k.rsa, "ec"),
		"changed claims":        strings.Join([]string{parts[0], otherClaims, parts[2]}, "."),
		"expired":               sign(t, with(claims{"exp": time.Now().Add(-2 * time.Minute).Unix()}), jose.RS256, k.rsa, "rsa"),
		"expired, another kind": sign(t, with(claims{"exp": time.Now().Add(-2 * time.Minute).Unix()}), jose.RS256, k.other, "rsa"),
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, u, withToken(token))
			if asked, _ := v.counts(); asked != 0 {
				t.Error("the API server was asked")
			}
		})
	}
	for name, token := range map[string]string{
		"good":             good,
		"OIDC":             sign(t, with(claims{"iss": "https://login.example.com", "sub": "jane"}), jose.RS256, k.other, "idp"),
		"opaque":           "abcdef.0123456789abcdef",
		"bootstrap":        "07401b.f395accd246ae52d",
		"a Secret's":       sign(t, with(claims{"exp": nil}), jose.RS256, k.rsa, "rsa"),
		"another audience": sign(t, with(claims{"aud": []string{"vault"}}), jose.RS256, k.rsa, "rsa"),
		"a rotated key":    sign(t, agentClaims(), jose.RS256, k.other, "new"),
		"no key named":     sign(t, agentClaims(), jose.RS256, k.other, ""),
	} {
		t.Run(name, func(t *testing.T) {
			v.set(func() { v.tokens[token] = user("jane") })
			before, _ := v.counts()
			known(t, u, withToken(token), "jane")
			if asked, _ := v.counts(); asked != before+1 {
				t.Errorf("%d TokenReviews", asked-before)
			}
		})
	}
}

// TestWrongClock checks tokens that expired long ago by the local clock, which may be wrong. The API server decides
// about them until a token with a later issue time proves their expiry (issue 37).
func TestWrongClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := clusterKeys()
		v := newReviewer()
		u := upstream(t, v, access.UpstreamOptions{Accounts: accounts(t, clusterIssuer(t))})
		token := func(id string) string { return sign(t, with(claims{"jti": id}), jose.RS256, k.rsa, "rsa") }
		good, old := token("1"), token("2")
		v.set(func() { v.tokens[good] = user("jane") })
		time.Sleep(time.Until(time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC)))
		known(t, u, withToken(good), "jane")
		refused(t, u, withToken(good+"x"))
		if asked, _ := v.counts(); asked != 1 {
			t.Fatalf("%d TokenReviews with a wrong clock, want one", asked)
		}
		newer := token("3")
		v.set(func() { v.tokens[newer] = user("jane") })
		known(t, u, withToken(newer), "jane")
		refused(t, u, withToken(old))
		if asked, _ := v.counts(); asked != 2 {
			t.Errorf("%d TokenReviews once the clock is known to be right, want two", asked)
		}
	})
}

// TestRandomTokens checks that the limits for unknown tokens do not affect known tokens: the owner's token, a token
// signed with a stored key, and a token that the API server has accepted before (issue 37).
func TestRandomTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))) // the fake clock begins in 2000
		k := clusterKeys()
		v := newReviewer()
		u := upstream(t, v, access.UpstreamOptions{Accounts: accounts(t, clusterIssuer(t)),
			UnknownTokenReviews: 2, UnknownTokensPerMinute: 5})
		owner := access.NewToken()
		static, err := access.NewStaticToken(owner, "larder")
		if err != nil {
			t.Fatal(err)
		}
		signed := sign(t, agentClaims(), jose.RS256, k.rsa, "rsa")
		oidc := sign(t, with(claims{"iss": "https://login.example.com"}), jose.RS256, k.other, "idp")
		const opaque = "31ada4fd-adec-460c-809a-9e56ceb75269"
		v.set(func() {
			v.tokens[signed], v.tokens[oidc], v.tokens[opaque] = user("agent"), user("jane"), user("joe")
		})
		h := handler(reached, access.Union(static, u), access.Limits{Requests: 4})
		code := func(address, token string) int { return answer(h, from(address, token)).Code }
		for _, token := range []string{owner, oidc, opaque} {
			if got := code("192.0.2.9", token); got != http.StatusOK {
				t.Fatalf("a good token got %d", got)
			}
		}
		time.Sleep(time.Minute) // no answer is cached for a minute
		v.set(func() { v.waiting = make(chan struct{}, 1000) })
		before, _ := v.counts()
		v.set(func() { v.wait = make(chan struct{}) })
		var all sync.WaitGroup
		var mu sync.Mutex
		codes := map[int]int{}
		for i := range 40 {
			all.Go(func() {
				w := answer(h, from("192.0.2.1", fmt.Sprintf("random-%d", i)))
				mu.Lock()
				defer mu.Unlock()
				codes[w.Code]++
			})
		}
		synctest.Wait()
		if n := len(v.waiting); n != 2 {
			t.Errorf("%d unknown tokens are reviewed at a time, want 2", n)
		}
		if got := code("192.0.2.1", owner); got != http.StatusOK {
			t.Errorf("the owner got %d beside unknown tokens", got)
		}
		for _, token := range []string{signed, oidc, opaque} {
			all.Go(func() {
				if got := code("192.0.2.1", token); got != http.StatusOK {
					t.Errorf("a good token got %d beside unknown ones", got)
				}
			})
		}
		synctest.Wait()
		if n := len(v.waiting); n != 5 {
			t.Errorf("%d tokens are reviewed, want those of 3 users beside 2 unknown ones", n)
		}
		close(v.wait)
		all.Wait()
		if asked, _ := v.counts(); asked-before-3 != 5 || codes[401] != 5 || codes[429] != 35 {
			t.Errorf("%d unknown tokens of 40 were reviewed: %v", asked-before-3, codes)
		}
		before, _ = v.counts()
		if got := code("192.0.2.1", "random"); got != http.StatusTooManyRequests {
			t.Errorf("an unknown token got %d from an address with many refused ones", got)
		}
		if got := code("192.0.2.2", "random"); got != http.StatusUnauthorized {
			t.Errorf("an unknown token got %d from another address", got)
		}
		if asked, _ := v.counts(); asked != before+1 {
			t.Errorf("%d TokenReviews", asked-before)
		}
		time.Sleep(time.Minute + 1)
		if got := code("192.0.2.1", "another"); got != http.StatusUnauthorized {
			t.Errorf("an unknown token got %d a minute later", got)
		}
	})
}

// TestTokensOfANetwork checks that all addresses of an IPv6 /64 count as one client address.
func TestTokensOfANetwork(t *testing.T) {
	h := handler(reached, upstream(t, newReviewer(), access.UpstreamOptions{UnknownTokensPerMinute: 2}), access.Limits{})
	for i, c := range []struct {
		address string
		code    int
	}{
		{"[2001:db8::1]", 401}, {"[2001:db8::2]", 401}, {"[2001:db8::3:0:0:4]", 429}, {"[2001:db8:0:1::1]", 401},
	} {
		if w := answer(h, from(c.address, fmt.Sprint("random-", i))); w.Code != c.code {
			t.Errorf("%s: %d, want %d", c.address, w.Code, c.code)
		}
	}
}

func TestManyUnknownTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a fake clock, since answers are cached for ten seconds
		v := newReviewer()
		u := upstream(t, v, access.UpstreamOptions{UnknownTokensPerMinute: 1 << 20})
		v.set(func() { v.tokens["good"] = user("jane") })
		known(t, u, withToken("good"), "jane")
		for i := range 9000 {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("Authorization", fmt.Sprintf("Bearer random-%d", i))
			unknown(t, u, r)
		}
		before, _ := v.counts()
		known(t, u, withToken("good"), "jane")
		if asked, _ := v.counts(); asked != before {
			t.Error("the API server was asked again about an accepted token")
		}
	})
}

// TestConcurrentWrongToken checks that concurrent requests with the same wrong token count as one rejected token of
// their client address. They return 401, not 429 (issue 37).
func TestConcurrentWrongToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newReviewer()
		wait := make(chan struct{})
		v.set(func() { v.wait = wait })
		h := handler(reached, upstream(t, v, access.UpstreamOptions{UnknownTokensPerMinute: 5}), access.Limits{})
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				if got := answer(h, from("192.0.2.1", "wrong")).Code; got != http.StatusUnauthorized {
					t.Errorf("got %d", got)
				}
			})
		}
		synctest.Wait()
		close(wait)
		all.Wait()
		if asked, _ := v.counts(); asked != 1 {
			t.Errorf("%d TokenReviews", asked)
		}
	})
}

// TestRefusalsAreDelayed checks that after many rejections of a client address further ones are delayed by a second.
// Authenticated requests and other addresses are not delayed (issue 37).
func TestRefusalsAreDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner := access.NewToken()
		static, err := access.NewStaticToken(owner, "larder")
		if err != nil {
			t.Fatal(err)
		}
		h := handler(reached, static, access.Limits{})
		ask := func(address, token string, code int, after time.Duration) {
			t.Helper()
			begun := time.Now()
			if got := answer(h, from(address, token)).Code; got != code || time.Since(begun) != after {
				t.Errorf("%s got %d after %v, want %d after %v", address, got, time.Since(begun), code, after)
			}
		}
		for range 240 {
			ask("192.0.2.1", "wrong", http.StatusUnauthorized, 0)
		}
		ask("192.0.2.1", "wrong", http.StatusUnauthorized, time.Second)
		ask("192.0.2.1", owner, http.StatusOK, 0)
		ask("192.0.2.2", "wrong", http.StatusUnauthorized, 0)
		time.Sleep(time.Minute)
		ask("192.0.2.1", "wrong", http.StatusUnauthorized, 0)
	})
}
