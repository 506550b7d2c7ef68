package browser

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

// scripts are texts that would run as HTML. A vertical bar stands for a slash, which object names cannot have.
var scripts = []string{
	`<script>window.ran=1<|script>`, `<img src=x onerror=window.ran=1>`, `"><svg onload=window.ran=1>`,
	`javascript:window.ran=1`, `{{constructor.constructor("window.ran=1")()}}`, "' autofocus onfocus='window.ran=1",
}

// TestHostileObjects checks that the page runs no text of an object: names, namespaces, labels, annotations, values and
// field names. An API server refuses some of these texts, but a file may contain them.
func TestHostileObjects(t *testing.T) {
	dir := t.TempDir()
	before, after := hostile(t, dir, "before", "x"), hostile(t, dir, "after", "y")
	address := serve(t, "--from", after, "--compare", before)
	tb := newTab(t)
	tb.open(address, "configmaps")
	tb.do(chromedp.Click(`main a[href*="configmaps"]`))
	tb.until(fmt.Sprintf(`document.querySelectorAll("tbody tr").length === %d`, len(scripts)))
	for _, text := range scripts {
		tb.shows(text)
	}
	checkAccessibility(tb)
	for i := range scripts {
		tb.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelectorAll("tbody th a")[%d].click()`, i)))
		tb.shows("annotations:")
		if n := evalAs[int](tb, `document.querySelectorAll("main :is(img, svg, script, iframe, object)").length`); n != 0 {
			t.Errorf("%d elements come from %s", n, scripts[i])
		}
		tb.do(chromedp.NavigateBack())
		tb.until(fmt.Sprintf(`document.querySelectorAll("tbody tr").length === %d`, len(scripts)))
	}
	tb.do(chromedp.Click(`nav a[href="#/compare"]`))
	tb.shows("6 changed")
	tb.do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll(".change button").forEach((b) => b.click())`))
	tb.until(fmt.Sprintf(`document.querySelectorAll(".whole").length === %d`, len(scripts)))
	if n := evalAs[int](tb, `document.querySelectorAll("main :is(img, svg, script, iframe, object)").length`); n != 0 {
		t.Errorf("%d elements come from objects", n)
	}
	if evalAs[bool](tb, "'ran' in window") {
		t.Error("a script of an object has run")
	}
	// The page's Content Security Policy must stop the scripts even if the page inserted them as HTML. The browser logs a
	// message about each stopped script, so the test expects these messages.
	tb.expect("Content Security Policy")
	tb.expect("TrustedHTML")
	if evalAs[bool](tb, `(() => { try { document.body.innerHTML = "<b>"; return true } catch { return false } })()`) {
		t.Error("innerHTML can be set")
	}
}

func hostile(t *testing.T, dir, name, value string) string {
	t.Helper()
	ctx := t.Context()
	st, err := store.Open(filepath.Join(dir, name+".db"), store.Options{})
	must(t, err)
	defer func() { must(t, st.Close()) }()
	id := entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Representation: entry.Unstructured}
	c, err := st.Collection(ctx, id, store.CollectionOptions{Codec: codec.Unstructured(),
		Resource: entry.ResourceInfo{Kind: "ConfigMap", Namespaced: true}})
	must(t, err)
	var all []runtime.Object
	for i, text := range scripts {
		full := strings.ReplaceAll(text, "|", "/")
		texts := map[string]any{full: full}
		all = append(all, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{full: full + value, "plain": value + full},
			"metadata": map[string]any{"namespace": "ns " + text, "name": text, "uid": fmt.Sprint(i),
				"resourceVersion": fmt.Sprint(i + 1), "labels": texts, "annotations": texts},
		}})
	}
	r, err := c.BeginReplace(ctx, store.ReplaceOptions{})
	must(t, err)
	must(t, second(r.Page(ctx, all)))
	must(t, second(r.Commit(ctx, entry.Batch{ResourceVersion: "9"})))
	must(t, st.Flush(ctx))
	path := filepath.Join(dir, name+".larder")
	must(t, second(snapshot.SaveStore(ctx, st, path, snapshot.SaveOptions{})))
	return path
}
