package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestKeyboard checks that the whole page works with a keyboard alone: objects, the search, and the list's form.
func TestKeyboard(t *testing.T) {
	tb := newTab(t)
	tb.open(mirrorPage(), "configmaps")
	heading := func(want string) {
		t.Helper()
		tb.until(`document.querySelector("h1")?.innerText.startsWith("` + want + `")`)
	}
	// Tab reaches every element from the first element on, and the focus is visible.
	tb.tabTo(`e.id === "skip" && e.getBoundingClientRect().left > 0`)
	tb.press(kb.Enter)
	tb.until(`document.activeElement.id === "main"`)
	tb.tabTo(`e.textContent === "pods" && getComputedStyle(e).outlineStyle !== "none"`)
	tb.press(kb.Enter)
	heading("pods")
	tb.shows("web-302fd")
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
	// The slash key starts a search. Escape first clears the search, then leaves the search field, then leaves the
	// list.
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
	tb.press(kb.Enter)
	heading("pods")
	tb.tabTo(`e.id === "ns"`)
	tb.press("shop", kb.Tab, "app=web", kb.Enter)
	tb.until(`document.querySelectorAll("tbody tr").length === 3`)
	tb.tabTo(`e.type === "checkbox"`)
	tb.press(" ")
	tb.until(`[...document.querySelectorAll("th")].some((e) => e.textContent === "Node" && e.checkVisibility())`)
	checkAccessibility(tb)
}

// slash presses the slash key as a keyboard does. The key types a slash unless the page handles the event.
func (tb *tab) slash() {
	tb.t.Helper()
	for _, key := range []input.DispatchKeyEventParams{
		{Type: "keyDown", Key: "/", Code: "Slash", Text: "/", WindowsVirtualKeyCode: 191}, {Type: "keyUp", Key: "/", Code: "Slash"},
	} {
		must(tb.t, second(chromedp.Call(tb.ctx, input.DispatchKeyEvent, key)))
	}
}

func (tb *tab) focused() string {
	tb.t.Helper()
	return evalAs[string](tb, "document.activeElement.textContent.trim()")
}
