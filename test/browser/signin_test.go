package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestSignIn: without a token there is a form and nothing else; a wrong one is refused; the right one shows the state,
// also after a reload, and in this tab alone.
func TestSignIn(t *testing.T) {
	tb := newTab(t)
	tb.expect("status of 401")
	tb.open("https://"+mirror.Address()+"/", "Sign in")
	if tb.shown(); evalAs[bool](tb, `document.body.innerText.includes("configmaps")`) {
		t.Errorf("data are shown: %s", tb.shown())
	}
	lookOver(tb)
	tb.press("wrong", kb.Enter)
	tb.shows("That token is not known here.")
	tb.press(token, kb.Enter)
	tb.shows("configmaps")
	tb.do(chromedp.Reload())
	tb.shows("configmaps")
	newTab(t).signedOut()
	tb.do(chromedp.Evaluate[chromedp.Void]("window.seen = 1; sessionStorage.setItem('seen', '1')"),
		chromedp.Click("#signout"))
	tb.shows("Sign in")
	tb.until("!window.seen && !sessionStorage.getItem('seen')") // nothing that this user has seen is left for the next
	tb.do(chromedp.Reload())
	tb.shows("Sign in")
}

// TestAddresses: an address that nobody can have made shows an error, or that there is nothing, and not an empty page.
func TestAddresses(t *testing.T) {
	tb := newTab(t)
	tb.open(mirrorPage(), "configmaps")
	tb.expect("status of 404")
	tb.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#/objects/_/v1/%zz"`))
	tb.shows("%zz")
	tb.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#token=%"`))
	tb.expect("status of 401")
	tb.shows("That token is not known here.")
}

func (tb *tab) signedOut() {
	tb.t.Helper()
	tb.expect("status of 401")
	tb.open("https://"+mirror.Address()+"/#/objects/_/v1/pods", "Sign in")
}

// TestTokenInTheAddress: the fragment signs in, and is gone from the address and from the history then.
func TestTokenInTheAddress(t *testing.T) {
	tb := newTab(t)
	tb.open(mirrorPage(), "configmaps")
	if at := evalAs[string](tb, "location.href"); at != "https://"+mirror.Address()+"/#/" {
		t.Errorf("the address is %s", at)
	}
	if n := evalAs[int](tb, "history.length"); n > 2 { // with the empty page before
		t.Errorf("the history has %d entries", n)
	}
}

// TestRights: a user who may read one kind in one namespace, and not the state, sees the kinds that are served, that
// one's objects, and why there is no more.
func TestRights(t *testing.T) {
	dir := t.TempDir()
	tokens, rights := filepath.Join(dir, "tokens"), filepath.Join(dir, "rights.yaml")
	jane := strings.Repeat("jane", 10)
	must(t, os.WriteFile(tokens, []byte(jane+",jane,1\n"), 0o600))
	must(t, os.WriteFile(rights, []byte(`apiVersion: larder.dev/v1alpha1
kind: OfflineAccess
rules:
- users: [jane]
  resources: [configmaps]
  namespaces: [shop]
`), 0o600))
	owners := serve(t, "--from", snapshots(t).monday, "--token-auth-file", tokens, "--offline-access", rights)
	address, _, _ := strings.Cut(owners, "#")
	tb := newTab(t)
	tb.expect("status of 403")
	tb.open(address+"#token="+jane, "The state takes the right to get /larder/status.")
	tb.shows("deployments.apps")
	lookOver(tb)
	tb.do(chromedp.Click(`main a[href*="configmaps"]`))
	tb.shows("You may not see this: configmaps is forbidden")
	tb.do(chromedp.SendKeys("#ns", "shop"+kb.Enter))
	tb.until(`document.querySelectorAll("tbody tr").length > 0`)
	tb.do(chromedp.Click("tbody th a"))
	tb.shows("namespace: shop")
}
