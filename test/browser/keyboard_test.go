package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestKeyboard goes from the state to an object and back, finds one, and reads a comparison, without a mouse.
func TestKeyboard(t *testing.T) {
	tb := newTab(t)
	tb.open(mirrorPage(), "configmaps")
	heading := func(want string) {
		t.Helper()
		tb.until(`document.querySelector("h1")?.innerText.startsWith("` + want + `")`)
	}
	// Tab reaches everything, also what comes first, and each stop can be seen.
	tb.tabTo(`e.id === "skip" && e.getBoundingClientRect().left > 0`)
	tb.press(kb.Enter)
	tb.until(`document.activeElement.id === "main"`)
	tb.tabTo(`e.textContent === "pods" && getComputedStyle(e).outlineStyle !== "none"`)
	tb.press(kb.Enter)
	heading("pods")
	tb.shows("web-302fd")
	// Rows by arrows, an object by Enter, and back to where one was.
	tb.press(kb.ArrowDown, kb.ArrowDown, kb.ArrowDown, kb.ArrowUp)
	name := tb.focused()
	if name != "alerts-6f1ec" {
		t.Errorf("the arrows lead to %q", name)
	}
	tb.press(kb.Enter)
	heading(name)
	tb.tabTo(`e.tagName === "SUMMARY"`)
	tb.press(kb.Enter)
	tb.until(`document.querySelector("details").open`)
	tb.press(kb.Escape)
	heading("pods")
	tb.until(`document.activeElement.textContent === "` + name + `"`)
	// A search, by a slash; Escape clears it, leaves it, and leaves the list.
	tb.slash()
	tb.press("web-3")
	tb.until(`document.querySelectorAll("tbody tr").length === 1`)
	if at := evalAs[string](tb, "location.hash"); !strings.Contains(at, "q=web-3") {
		t.Errorf("the search is not in the address %s", at)
	}
	tb.press(kb.Escape)
	tb.until(`document.querySelectorAll("tbody tr").length > 5`)
	tb.press(kb.Escape, kb.Escape)
	heading("State")
	tb.until(`document.activeElement.textContent === "pods"`)
	// A namespace and labels, in the form.
	tb.press(kb.Enter)
	heading("pods")
	tb.tabTo(`e.id === "ns"`)
	tb.press("shop", kb.Tab, "app=web", kb.Enter)
	tb.until(`document.querySelectorAll("tbody tr").length === 3`)
	tb.tabTo(`e.type === "checkbox"`)
	tb.press(" ")
	tb.until(`[...document.querySelectorAll("th")].some((e) => e.textContent === "Node" && e.checkVisibility())`)
	lookOver(tb)
}

// slash presses that key as a keyboard does: its text comes with the key, and not if the page takes that.
func (tb *tab) slash() {
	tb.t.Helper()
	for _, key := range []input.DispatchKeyEventParams{
		{Type: "keyDown", Key: "/", Code: "Slash", Text: "/", WindowsVirtualKeyCode: 191}, {Type: "keyUp", Key: "/", Code: "Slash"},
	} {
		must(tb.t, second(chromedp.Call(tb.ctx, input.DispatchKeyEvent, key)))
	}
}

// focused is the text of what has the focus.
func (tb *tab) focused() string {
	tb.t.Helper()
	return evalAs[string](tb, "document.activeElement.textContent.trim()")
}
