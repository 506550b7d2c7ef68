package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestSignIn checks the form for signing in: without a token the page shows only the form, and a wrong token is
// refused. A correct token survives a reload of the tab, and other tabs do not have the token.
func TestSignIn(t *testing.T) {
	tb := newTab(t)
	tb.expect("status of 401")
	tb.open("https://"+mirror.Address()+"/", "Sign in")
	if tb.shown(); evalAs[bool](tb, `document.body.innerText.includes("configmaps")`) {
		t.Errorf("data are shown: %s", tb.shown())
	}
	checkAccessibility(tb)
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
	tb.until("!window.seen && !sessionStorage.getItem('seen')") // the next user of the tab finds no data
	tb.do(chromedp.Reload())
	tb.shows("Sign in")
}

// TestAddresses checks that malformed URLs show an error or an empty result, but no blank page.
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

// TestTokenInTheAddress checks that a token in the URL's fragment signs in, and is removed from the URL and from the
// browser's history.
func TestTokenInTheAddress(t *testing.T) {
	tb := newTab(t)
	tb.open(mirrorPage(), "configmaps")
	if at := evalAs[string](tb, "location.href"); at != "https://"+mirror.Address()+"/#/" {
		t.Errorf("the address is %s", at)
	}
	if n := evalAs[int](tb, "history.length"); n > 2 { // the count includes the new tab's blank page
		t.Errorf("the history has %d entries", n)
	}
}

// TestRights checks the page for a user who may read one kind in one namespace, but not the mirror's state. The page
// must show the served kinds, the permitted objects, and the reason why other objects are missing.
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
	checkAccessibility(tb)
	tb.do(chromedp.Click(`main a[href*="configmaps"]`))
	tb.shows("You may not see this: configmaps is forbidden")
	tb.do(chromedp.SendKeys("#ns", "shop"+kb.Enter))
	tb.until(`document.querySelectorAll("tbody tr").length > 0`)
	tb.do(chromedp.Click("tbody th a"))
	tb.shows("namespace: shop")
}
