package browser

import (
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// TestStateView checks that the page's view of the mirror's state hides empty kinds, finds kinds by name, and sorts by
// a column (issue 37).
func TestStateView(t *testing.T) {
	tb := newTab(t)
	tb.open(mirrorPage(), "configmaps")
	const names = `[...document.querySelectorAll("tbody th")].map((e) => e.textContent)`
	tb.until(`/\d empty kinds? hidden/.test(document.getElementById("main").innerText)`) // there may be no events yet
	if evalAs[bool](tb, names+`.includes("jobs.batch")`) {
		t.Error("the empty kind jobs.batch is shown")
	}
	tb.do(chromedp.Click(`form input[type=checkbox]`))
	tb.until(names + `.includes("jobs.batch") && location.hash.includes("empty=1")`)
	tb.do(chromedp.Click(`form input[type=checkbox]`))
	tb.until("!" + names + `.includes("jobs.batch")`)
	tb.find("jobs")
	tb.until(names + `.join() === "jobs.batch"`)
	tb.find("config")
	tb.until(names + `.join() === "configmaps"`)
	tb.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#/?sort=-Objects"`))
	tb.until(names + `[0] === "configmaps" && document.querySelector('[aria-sort=descending]')?.innerText.startsWith("Objects")`)
	tb.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll("thead button")].find((e) => e.textContent === "Resource").click()`))
	tb.until(names + `.join() === ` + names + `.sort().join() && location.hash.includes("sort=Resource")`)
	checkAccessibility(tb)
}

// TestStateNotes checks that the page's view of the mirror's state shows known defects of a collection, and marks the
// collection as not healthy (issue 37).
func TestStateNotes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	st, err := store.Open(path, store.Options{})
	must(t, err)
	c, err := st.Collection(t.Context(), entry.Identity{Representation: entry.Unstructured,
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}, store.CollectionOptions{
		Codec: codec.Unstructured(), Resource: entry.ResourceInfo{Kind: "ConfigMap", Namespaced: true}})
	must(t, err)
	r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{Attributes: entry.Attributes{Transform: "7"}})
	must(t, err)
	must(t, second(r.Commit(t.Context(), entry.Batch{ResourceVersion: "9"})))
	must(t, c.SetMustRelist(t.Context(), "it was asked for"))
	must(t, st.Close())
	tb := newTab(t)
	tb.open(serve(t, "--from", path), "to be listed again (it was asked for)")
	tb.shows(`a transform (version "7") changed the objects`)
	if !evalAs[bool](tb, `document.querySelector("tbody .tag").classList.contains("warn")`) {
		t.Error("the state is not marked")
	}
	checkAccessibility(tb)
}

// TestBadStates checks that the page marks failed pods and pods that are not ready by colour (issue 37).
func TestBadStates(t *testing.T) {
	tb := newTab(t)
	tb.open(mirrorPage(), "configmaps")
	tb.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#/objects/_/v1/pods"`))
	tb.until(`document.querySelectorAll("tbody tr").length > 5`)
	wrong := evalAs[[]string](tb, `[...document.querySelectorAll("tbody td")].filter((e) =>
		/^(CrashLoopBackOff|Error|Failed|ImagePullBackOff)$/.test(e.textContent) !== e.classList.contains("bad"))
		.map((e) => e.textContent)`)
	if len(wrong) > 0 {
		t.Errorf("cells with the wrong class: %q", wrong)
	}
	if n := evalAs[int](tb, `document.querySelectorAll("td.bad").length`); n == 0 {
		t.Error("no pod of the playground has a bad state")
	}
	checkAccessibility(tb)
}
