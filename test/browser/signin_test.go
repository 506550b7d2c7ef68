package browser

import (
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
	tb.do(chromedp.Click("#signout"))
	tb.shows("Sign in")
	tb.do(chromedp.Reload())
	tb.shows("Sign in")
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
