package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const fleet = "#/objects/_/v1/configmaps?ns=fleet"

func TestManyObjects(t *testing.T) {
	snapshots(t) // creates objects, so it must run before the count below
	tb := newTab(t)
	tb.open(mirrorPage(), "configmaps")
	all := evalAs[int](tb, `fetch("/api/v1/namespaces/fleet/configmaps?limit=1", { headers: { Authorization: "Bearer " + sessionStorage.token } })
		.then((r) => r.json()).then((l) => l.metadata.remainingItemCount + 1)`, chromedp.EvalAwaitPromise)
	tb.do(chromedp.Evaluate[chromedp.Void](`location.hash = "` + fleet + `"`))
	rows := func(n int) {
		t.Helper()
		tb.until(fmt.Sprintf(`document.querySelectorAll("tbody tr").length === %d`, n))
	}
	rows(500)
	tb.shows(fmt.Sprintf("Show more (%s left)", thousands(all-500)))
	for shown := 500; shown < all; {
		tb.do(chromedp.Click("main > div > button"))
		shown = min(shown+500, all)
		rows(shown)
	}
	if evalAs[bool](tb, `document.querySelector("main > div > button").checkVisibility()`) {
		t.Error("there is a button for more when there is no more")
	}
	names := evalAs[int](tb, `new Set([...document.querySelectorAll("tbody th")].map((e) => e.textContent)).size`)
	if names != all {
		t.Errorf("%d names in %d rows", names, all)
	}
	tb.find("worker-497")
	rows(10)
	tb.shows(fmt.Sprintf("10 of %s", thousands(all)))
	// If a new search replaces a running search, the page must show no error.
	tb.do(chromedp.Evaluate[chromedp.Void](`{
		const ask = fetch;
		window.fetch = async (...request) => {
			await new Promise((resolve) => setTimeout(resolve, 300));
			return ask(...request);
		};
	}`))
	tb.find("worker-1")
	tb.find("no such thing")
	rows(0)
	checkAccessibility(tb)
}

func thousands(n int) string { return fmt.Sprintf("%d,%03d", n/1000, n%1000) }

// TestLive checks that the page shows changes in the cluster when they happen. The list of objects must change, and the
// view of changes must show the changes with the old values of the columns.
func TestLive(t *testing.T) {
	ctx := t.Context()
	tb := newTab(t)
	tb.open(mirrorPage(), "configmaps")
	tb.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#/objects/_/v1/configmaps?ns=shop"`))
	tb.until(`!document.querySelector("h1 .tag").hidden`)
	cms := client.CoreV1().ConfigMaps("shop")
	live := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a-live-one"}}
	must(t, second(cms.Create(ctx, live, metav1.CreateOptions{})))
	row := `document.querySelector('tr[data-key="shop/a-live-one"]')`
	tb.until(row)
	if n := evalAs[int](tb, row+".rowIndex"); n != 1 {
		t.Errorf("it is the row %d, and its name is the first", n)
	}
	must(t, second(cms.Patch(ctx, live.Name, types.MergePatchType, []byte(`{"data":{"a":"1","b":"2"}}`), metav1.PatchOptions{})))
	tb.until(row + `.cells[1].textContent === "2"`)
	must(t, cms.Delete(ctx, live.Name, metav1.DeleteOptions{}))
	tb.until("!" + row)
	tb.do(chromedp.Click(`nav a[href="#/changes"]`))
	tb.shows("removed configmaps shop/a-live-one")
	tb.shows("added configmaps shop/a-live-one")
	// The page shows committed changes under the label "Recorded changes". The objects of the first list do not count as
	// changes.
	recorded := `[...document.querySelectorAll('ol[aria-label="Recorded changes"] > li')].map((e) => e.innerText).join()`
	eventually(t, "the removal is not on record", func() bool {
		tb.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("since")?.dispatchEvent(new Event("change"))`))
		return evalAs[bool](tb, recorded+`.includes("removed configmaps shop/a-live-one")`)
	})
	if evalAs[bool](tb, recorded+`.includes("worker-0001")`) {
		t.Error("what the first list has brought is on record")
	}
	// The page offers the kind with the most changes first. The kind's filters select both live and committed changes.
	tb.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#/"`))
	tb.shows("configmaps")
	tb.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#/changes?ns=shop&q=live-one"`))
	listed := `[...document.querySelectorAll("ol.changes > li .name")].map((e) => e.textContent)`
	tb.until(`document.querySelector('ol[aria-label="Recorded changes"] li') && ` + listed + `.every((n) => n === "shop/a-live-one")`)
	if first := evalAs[string](tb, `document.querySelector("fieldset input").value`); first != "configmaps all" {
		t.Errorf("the first kind is %q, and ConfigMaps have changed most", first)
	}
	tb.do(chromedp.Evaluate[chromedp.Void](`const k = document.getElementById("kind"); k.value = "pods"; k.dispatchEvent(new Event("input"))`))
	tb.until(listed + `.length === 0 && location.hash.includes("kind=pods")`)
	checkAccessibility(tb)
	tb.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#/changes"`))
	tb.shows("removed configmaps shop/a-live-one")
	tb.until(`document.querySelectorAll("fieldset input:checked").length === 4`)
	tb.do(chromedp.Evaluate[chromedp.Void](`for (const e of document.querySelectorAll("fieldset input")) if (e.checked !== e.value.startsWith("pods")) e.click()`))
	// The view shows only events that arrive after it began to follow the kind. So the test changes the pod until a change
	// is shown.
	n := 0
	eventually(t, "the change of the pod does not appear", func() bool {
		n++
		body := fmt.Sprintf(`{"status":{"reason":"Reason%d"}}`, n)
		must(t, second(client.CoreV1().Pods("shop").Patch(ctx, "web-302fd", types.MergePatchType, []byte(body), metav1.PatchOptions{}, "status")))
		return evalAs[bool](tb, `[...document.querySelectorAll(".fields tr")].some((e) => /^Status\s+(Running|Reason\d+)\s+Reason\d+/.test(e.innerText))`)
	})
	checkAccessibility(tb)
}
