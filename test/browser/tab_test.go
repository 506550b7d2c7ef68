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

const patience = time.Minute

// tab is a browser tab. The test fails at the end if the tab had unexpected problems.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string // mu guards problems and asked
	asked    int
	// expected are texts. A problem with one of these texts was caused on purpose by the test.
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

// note notes problems of the tab: console errors, exceptions, requests to other hosts, and tokens in URLs.
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

func (tb *tab) expect(text string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.expected = append(tb.expected, text)
}

func (tb *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		tb.t.Fatalf("%v\nthe page shows: %s", err, tb.shown())
	}
}

func (tb *tab) open(address, text string) {
	tb.t.Helper()
	tb.do(chromedp.Navigate(address))
	tb.shows(text)
}

func evalAs[T any](tb *tab, expression string, o ...chromedp.EvaluateOption) T {
	tb.t.Helper()
	v, err := tryAs[T](tb, expression, o...)
	if err != nil {
		tb.t.Fatalf("%s: %v\nthe page shows: %s", expression, err, tb.shown())
	}
	return v
}

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

func (tb *tab) shows(text string) {
	tb.t.Helper()
	tb.until(fmt.Sprintf("document.getElementById('main')?.innerText.includes(%q)", text))
}

// blur removes the keyboard focus and scrolls to the top of the page.
var blur = chromedp.Evaluate[chromedp.Void]("document.activeElement.blur(); scrollTo(0, 0)")

func (tb *tab) find(text string) {
	tb.t.Helper()
	tb.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("search").select()`), chromedp.SendKeys("#search", text))
	tb.until(fmt.Sprintf(`new URLSearchParams(location.hash.split("?")[1]).get("q") === %q`, text))
}

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

// emulate sets the preferred colour scheme, dark or light, and the size of the window.
func (tb *tab) emulate(scheme string, width, height int64) {
	tb.t.Helper()
	tb.do(chromedp.EmulateViewport(width, height))
	media := emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(tb.ctx, emulation.SetEmulatedMedia, media); err != nil {
		tb.t.Fatal(err)
	}
}
