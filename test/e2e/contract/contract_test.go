package contract

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// atOnce is the number of concurrent requests per server. Most requests only wait: for the end of a watch, or for a
// resourceVersion in the future.
const atOnce = 32

// differences sends all requests to both servers and returns the differences. A watch with missing events is repeated
// with more time, because a busy machine may not deliver all events within a second.
func (w *world) differences(ctx context.Context, other *target, all []Request) (found []Difference) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	queue := make(chan Request)
	for range atOnce {
		wg.Go(func() {
			for r := range queue {
				d := w.differencesOf(ctx, other, r)
				if slices.ContainsFunc(d, Difference.lacksEvents) {
					longer := r
					longer.Query = strings.Replace(r.Query, "timeoutSeconds=1", "timeoutSeconds=4", 1)
					longer.HangUp *= 4
					d = w.differencesOf(ctx, other, longer)
				}
				mu.Lock()
				found = append(found, d...)
				mu.Unlock()
			}
		})
	}
	for _, r := range all {
		queue <- r
	}
	close(queue)
	wg.Wait()
	slices.SortStableFunc(found, func(a, b Difference) int { return strings.Compare(a.Request.String(), b.Request.String()) })
	return found
}

// lacksEvents reports whether one of two watches lacks a whole event of the other watch.
func (d Difference) lacksEvents() bool { return wholeEvent.MatchString(d.Path) }

var wholeEvent = regexp.MustCompile(`^events(\[[^\]]*\]|\.order of items)?$`)

func (w *world) differencesOf(ctx context.Context, other *target, r Request) []Difference {
	answers := make(chan Answer)
	go func() { answers <- w.ask(ctx, other, r) }()
	want := w.ask(ctx, w.upstream, r)
	return compare(r, want, <-answers)
}

func report(t *testing.T, found []Difference) {
	t.Helper()
	groups := map[string][]Difference{}
	for _, d := range found {
		groups[d.form()] = append(groups[d.form()], d)
	}
	forms := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		if n := len(groups[b]) - len(groups[a]); n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	for _, form := range forms {
		var text strings.Builder
		for i, d := range groups[form] {
			if i < 3 {
				fmt.Fprintf(&text, "\n\t%s\n\t\t%s", d.Request, d)
			}
		}
		t.Errorf("%d × %s%s", len(groups[form]), form, text.String())
	}
}

// TestContract checks that all differences between the answers of kube-apiserver and larder are accepted by a rule. A
// rule without a matching difference is obsolete, and fails the test.
func TestContract(t *testing.T) {
	began := time.Now()
	all := requests()
	found := shared.differences(t.Context(), mirrored, all)
	t.Logf("%d requests in %s", len(all), time.Since(began).Round(time.Second))
	hits := make([]int, len(rules))
	found = slices.DeleteFunc(found, func(d Difference) bool {
		i := slices.IndexFunc(rules, func(r Rule) bool { return r.Accepts(d) })
		if i >= 0 {
			hits[i]++
		}
		return i >= 0
	})
	for i, r := range rules {
		if t.Logf("%6d × %s", hits[i], r.Name); hits[i] == 0 && r.ShownBy == "" {
			t.Errorf("no answer differs by the rule %q: delete it, also from %s", r.Name, document)
		}
	}
	report(t, found)
}

// TestSelf compares kube-apiserver with itself, so a difference is a mistake of the comparison. LARDER_SOAK=1 sends all
// requests.
func TestSelf(t *testing.T) {
	report(t, shared.differences(t.Context(), shared.upstream, few(t, 8)))
}

// few returns every nth request, or all requests with LARDER_SOAK=1.
func few(t *testing.T, n int) (some []Request) {
	t.Helper()
	all := requests()
	if soak {
		return all
	}
	for i := 0; i < len(all); i += n {
		some = append(some, all[i])
	}
	t.Logf("%d of %d requests", len(some), len(all))
	return some
}

// TestTampered modifies answers in transit. The comparison must find exactly these modifications.
func TestTampered(t *testing.T) {
	list, one := get(pods.all()), get(gadgets.named("full"))
	stream := get(pods.all()).watch()
	for _, c := range []struct {
		name    string
		request Request
		change  func(resp *http.Response, body string) string
		want    string // path of the expected difference
	}{
		{"status", list, func(resp *http.Response, body string) string { resp.StatusCode = 203; return body }, "status"},
		{"header", list, func(resp *http.Response, body string) string { resp.Header.Set("Vary", "Accept"); return body },
			"header.Vary"},
		{"no header", list, func(resp *http.Response, body string) string { resp.Header.Del("Cache-Control"); return body },
			"header.Cache-Control"},
		{"value", one, replace(`"color":"red"`, `"color":"rot"`), "body.spec.color"},
		{"number", one, replace(`"ratio":0.25`, `"ratio":0.250`), "body.spec.ratio"},
		{"null", get(gadgets.in("empty")), replace(`"items":[]`, `"items":null`), "body.items"},
		{"label", list, replace(`"tier":"back"`, `"tier":"bank"`), "body.items[shop/failed].metadata.labels.tier"},
		{"order", get(nodes.all(), "limit", "2"), swap(`"name":"comes"`, `"name":"node-1"`), ""},
		{"old list", list, numbers(`"metadata":{"resourceVersion":"`, "1"), "body.metadata.resourceVersion"},
		{"age", get(pods.in("lab"), "includeObject", "None").accept(table), numbers(`"0/1","Pending","0","`, "9999"),
			"body.rows[0].cells[4]"},
		{"lost event", stream, func(_ *http.Response, body string) string {
			_, rest, _ := strings.Cut(body, "\n")
			return rest
		}, ""},
		{"event type", stream, replace(`"type":"ADDED"`, `"type":"MODIFIED"`), ""},
		{"error", get(pods.named("nobody")), replace("not found", "not there"), "body.message"},
		{"too large", get(pods.all(), "resourceVersion", "{future}"), replace("Too large", "Much too large"), ""},
		{"last page", get(nodes.all(), "limit", "2").walk(), replace(`"remainingItemCount":2`, `"remainingItemCount":3`),
			"pages[0].body.metadata.remainingItemCount"},
		{"expired", get(pods.all(), "continue", "{expired}"), replace(`"metadata":{"continue":"`, `"metadata":{"contin":"`), ""},
		{"compressed", get(pods.all()).accept(protobuf), replace("nginx", "nginy"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := shared
			proxy := altered(t, w.upstream, c.change)
			found := w.differences(t.Context(), proxy, []Request{c.request})
			switch {
			case len(found) == 0:
				t.Error("nothing was found")
			case c.want != "" && (len(found) > 1 || found[0].Path != c.want):
				t.Errorf("want one difference, in %s; got %v", c.want, found)
			}
			for _, d := range found {
				t.Log(d)
			}
		})
	}
}

func replace(old, text string) func(*http.Response, string) string {
	return func(_ *http.Response, body string) string { return strings.Replace(body, old, text, 1) }
}

func swap(a, b string) func(*http.Response, string) string {
	return func(_ *http.Response, body string) string { return strings.NewReplacer(a, b, b, a).Replace(body) }
}

// numbers returns a function for altered that replaces the digits behind a text.
func numbers(behind, digits string) func(*http.Response, string) string {
	return func(_ *http.Response, body string) string {
		before, after, found := strings.Cut(body, behind)
		if !found {
			return body
		}
		return before + behind + digits + strings.TrimLeft(after, "0123456789")
	}
}

// altered returns a proxy of a server. change modifies the proxy's answers.
func altered(t *testing.T, upstream *target, change func(resp *http.Response, body string) string) *target {
	t.Helper()
	address, err := url.Parse(upstream.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(address)
	proxy.Transport = upstream.client.Transport
	proxy.ModifyResponse = func(resp *http.Response) error { return changeBody(resp, change) }
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return newTarget("changed", server.URL, upstream.token, server.Client().Transport)
}

func changeBody(resp *http.Response, change func(resp *http.Response, body string) string) error {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	changed := change(resp, string(body))
	resp.Body = io.NopCloser(strings.NewReader(changed))
	resp.ContentLength = int64(len(changed))
	resp.Header.Del("Content-Length")
	return nil
}
