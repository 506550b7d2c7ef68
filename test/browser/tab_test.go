package browser

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is the timeout of each step in the browser, long enough for a busy machine.
const patience = time.Minute

// tab is a browser tab. Its test fails at the end if the tab had unexpected problems.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string // guarded by mu
	asked    int      // number of requests; guarded by mu
	// expected are texts. A problem that contains one of them was caused on purpose by the test.
	expected []string
}

// newTab opens a browser tab with its own storage, in which no user is signed in.
func newTab(t *testing.T) *tab {
	t.Helper()
	tb := &tab{t: t}
	ctx, cancel := chromedp.NewContext(browserCtx, chromedp.WithNewBrowserContext(), chromedp.WithListener(tb.note))
	tb.ctx = ctx
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1100, 720)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		tb.mu.Lock()
		defer tb.mu.Unlock()
		if tb.asked < 5 {
			t.Errorf("only %d requests were seen", tb.asked)
		}
		for _, p := range tb.problems {
			t.Error(p)
		}
	})
	return tb
}

// note records problems of the tab: console errors, exceptions, requests to other hosts, and tokens in URLs.
func (tb *tab) note(ev any) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		tb.asked++
		if u, err := url.Parse(ev.Request.URL); err != nil || u.Scheme != "data" && u.Hostname() != "127.0.0.1" {
			tb.problem("requested %s", ev.Request.URL)
		}
		if strings.Contains(ev.Request.URL, "token") {
			tb.problem("a token is in the address %s", ev.Request.URL)
		}
	case *runtime.EventExceptionThrown:
		tb.problem("exception: %v", ev.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		if ev.Type == "error" || ev.Type == "warning" {
			tb.problem("console: %s", ev.Args[0].Value)
		}
	case *log.EventEntryAdded:
		if ev.Entry.Level == "error" {
			tb.problem("console: %s %s", ev.Entry.Text, ev.Entry.URL)
		}
	}
}

func (tb *tab) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, e := range tb.expected {
		if strings.Contains(text, e) {
			return
		}
	}
	tb.problems = append(tb.problems, text)
}

// expect permits problems of the tab whose message contains text.
func (tb *tab) expect(text string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.expected = append(tb.expected, text)
}

// do runs browser actions.
func (tb *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		tb.t.Fatalf("%v\nthe page shows: %s", err, tb.shown())
	}
}

// open opens a URL, and waits until the page shows text.
func (tb *tab) open(address, text string) {
	tb.t.Helper()
	tb.do(chromedp.Navigate(address))
	tb.shows(text)
}

// evalAs returns the value of a JavaScript expression.
func evalAs[T any](tb *tab, expression string, o ...chromedp.EvaluateOption) T {
	tb.t.Helper()
	v, err := tryAs[T](tb, expression, o...)
	if err != nil {
		tb.t.Fatalf("%s: %v\nthe page shows: %s", expression, err, tb.shown())
	}
	return v
}

// tryAs returns the value of a JavaScript expression, or the error of its evaluation.
func tryAs[T any](tb *tab, expression string, o ...chromedp.EvaluateOption) (T, error) {
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, o...))
}

// navigating reports whether a JavaScript evaluation failed because the tab was loading a new page.
func navigating(err error) bool {
	var protocol *cdproto.Error
	return errors.As(err, &protocol) && strings.Contains(protocol.Message, "navigated or closed")
}

// shown returns the page's title, URL and text.
func (tb *tab) shown() string {
	ctx, cancel := context.WithTimeout(tb.ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](
		`document.title + "\n" + location.href + "\n" + document.body.innerText`))
	if err != nil {
		return err.Error()
	}
	return text
}

// until waits until a JavaScript expression is true.
func (tb *tab) until(expression string) {
	tb.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		ok, err := tryAs[bool](tb, "!!("+expression+")")
		if ok {
			return
		}
		if err != nil && !navigating(err) {
			tb.t.Fatalf("%s: %v\nthe page shows: %s", expression, err, tb.shown())
		}
		if time.Now().After(deadline) {
			tb.t.Fatalf("never true: %s\nthe page shows: %s", expression, tb.shown())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// shows waits until the main part of the page contains text.
func (tb *tab) shows(text string) {
	tb.t.Helper()
	tb.until(fmt.Sprintf("document.getElementById('main')?.innerText.includes(%q)", text))
}

// blur removes the keyboard focus and scrolls to the top of the page.
var blur = chromedp.Evaluate[chromedp.Void]("document.activeElement.blur(); scrollTo(0, 0)")

// find replaces the text in the search field.
func (tb *tab) find(text string) {
	tb.t.Helper()
	tb.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("search").select()`), chromedp.SendKeys("#search", text))
	tb.until(fmt.Sprintf(`new URLSearchParams(location.hash.split("?")[1]).get("q") === %q`, text))
}

// press sends key events.
func (tb *tab) press(keys ...string) {
	tb.t.Helper()
	for _, k := range keys {
		tb.do(chromedp.KeyEvent(k))
	}
}

// tabTo presses Tab until the focused element e satisfies a JavaScript condition.
func (tb *tab) tabTo(condition string) {
	tb.t.Helper()
	for range 100 {
		if evalAs[bool](tb, "((e) => !!("+condition+"))(document.activeElement)") {
			return
		}
		tb.press(kb.Tab)
	}
	tb.t.Fatalf("Tab never reaches what is %s\nthe page shows: %s", condition, tb.shown())
}

// emulate emulates a preferred colour scheme, dark or light, and the size of the window.
func (tb *tab) emulate(scheme string, width, height int64) {
	tb.t.Helper()
	tb.do(chromedp.EmulateViewport(width, height))
	media := emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(tb.ctx, emulation.SetEmulatedMedia, media); err != nil {
		tb.t.Fatal(err)
	}
}
