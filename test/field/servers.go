package field

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/serve"
)

const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

// served serves the store of a running informer by Larder's API. get sends a request with the given Accept header.
func (r *run) served() (get func(method, accept, path string, body io.Reader) *http.Response) {
	r.w.Helper()
	h, err := serve.New(serve.Store(r.File()), serve.Options{})
	r.w.must(err)
	server := httptest.NewServer(h)
	ctx, cancel := context.WithCancel(context.Background())
	r.w.Cleanup(func() {
		cancel()
		if err := h.Close(); err != nil {
			r.w.Error(err)
		}
		server.Close()
	})
	return func(method, accept, path string, body io.Reader) *http.Response {
		r.w.Helper()
		q, err := http.NewRequestWithContext(ctx, method, server.URL+path, body)
		r.w.must(err)
		q.Header.Set("Accept", accept)
		if body != nil {
			q.Header.Set("Content-Type", "application/merge-patch+json")
		}
		resp, err := http.DefaultClient.Do(q)
		r.w.must(err)
		r.w.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
}

func withHistory(o *informer.Options) { o.History = 1 << 20 }

func list(t *World, resp *http.Response) (rv, next string, names []string) {
	t.Helper()
	var l struct {
		Kind     string
		Metadata struct{ ResourceVersion, Continue string }
		Items    []struct{ Metadata struct{ Name string } }
	}
	t.must(json.NewDecoder(resp.Body).Decode(&l))
	if resp.StatusCode != http.StatusOK || l.Kind != "PodList" {
		t.Fatalf("%s: %+v", resp.Status, l)
	}
	for _, i := range l.Items {
		names = append(names, i.Metadata.Name)
	}
	return l.Metadata.ResourceVersion, l.Metadata.Continue, names
}

// ReportsOfServers returns the trials of bug reports about caching API servers, by the name of the report.
func ReportsOfServers() map[string]func(*World) {
	return map[string]func(*World){
		"kubectl#628":   watchAnswersAtOnce,
		"openyurt#2137": writesAreRefused,
		"openyurt#2121": listsInPagesOffline,
		"openyurt#1400": listsOfSeveralSelectors,
		"k9s#3334":      watchOfTables,
		"rancher#48673": agesInTables,
		"kubeterm#62":   pagesOfAChangingList,
	}
}

// watchAnswersAtOnce repeats this defect: the response headers of a quiet watch arrive only with its first event.
func watchAnswersAtOnce(w *World) {
	w.create(pod("a", "x", "1", ""))
	get := w.start(withHistory).served()
	rv, _, _ := list(w, get("GET", "application/json", "/api/v1/pods", nil))
	if resp := get("GET", "application/json", "/api/v1/pods?watch=1&resourceVersion="+rv, nil); resp.StatusCode != 200 {
		w.Error(resp.Status)
	}
}

// writesAreRefused repeats this defect: writes to a cache succeed although the API server is unreachable.
func writesAreRefused(w *World) {
	w.create(pod("a", "x", "1", ""))
	r := w.start(withHistory)
	get := r.served()
	w.proxy.disconnect()
	for _, method := range []string{"PATCH", "PUT", "POST", "DELETE"} {
		path := "/api/v1/namespaces/a/pods/x"
		if method == "PATCH" {
			path += "/status"
		}
		resp := get(method, "application/json", path, strings.NewReader(`{"metadata":{"labels":{"a":"b"}}}`))
		var status struct{ Kind, Message string }
		w.must(json.NewDecoder(resp.Body).Decode(&status))
		if resp.StatusCode < 400 || status.Kind != "Status" || status.Message == "" {
			w.Errorf("%s: %s %+v", method, resp.Status, status)
		}
	}
	if len(r.found("ip", "1")) != 1 {
		w.Error("the pod has changed")
	}
}

// listsInPagesOffline repeats this defect: a list with a limit is empty while the API server is unreachable.
func listsInPagesOffline(w *World) {
	for n := range 7 {
		w.create(pod("a", fmt.Sprintf("x%d", n), "1", ""))
	}
	get := w.start(withHistory).served()
	w.proxy.disconnect()
	for _, limit := range []string{"500", "3", "1"} {
		var all []string
		for path, next := "/api/v1/pods?limit="+limit, ""; ; path = "/api/v1/pods?limit=" + limit + "&continue=" + next {
			_, after, names := list(w, get("GET", "application/json", path, nil))
			if all, next = append(all, names...), after; next == "" {
				break
			}
		}
		if len(all) != 7 || !slices.IsSorted(all) {
			w.Errorf("limit %s: %q", limit, all)
		}
	}
}

// listsOfSeveralSelectors repeats this defect: lists with different selectors overwrite each other in the cache.
func listsOfSeveralSelectors(w *World) {
	for n := range 4 {
		p := pod("a", fmt.Sprintf("x%d", n), "1", "")
		p.Spec.NodeName, p.Labels = fmt.Sprintf("n%d", n%2), map[string]string{"app": fmt.Sprint(n)}
		w.create(p)
	}
	r := w.start(withHistory)
	for round := range 2 {
		get := r.served()
		for query, want := range map[string]string{
			"fieldSelector=spec.nodeName=n1":                            "x1 x3",
			"fieldSelector=spec.nodeName=n0&limit=500":                  "x0 x2",
			"labelSelector=app=2&resourceVersion=0":                     "x2",
			"fieldSelector=spec.nodeName=n9":                            "",
			"labelSelector=app+in+(1,2)&fieldSelector=spec.nodeName=n0": "x2",
		} {
			_, _, names := list(w, get("GET", "application/json", "/api/v1/pods?"+query, nil))
			if strings.Join(names, " ") != want {
				w.Errorf("round %d, %s: %q", round, query, names)
			}
		}
	}
}

// watchOfTables repeats this defect: a watch for Tables sends plain objects.
func watchOfTables(w *World) {
	w.create(pod("a", "x", "1", ""))
	r := w.start(withHistory)
	resp := r.served()("GET", asTable, "/api/v1/pods?watch=1&allowWatchBookmarks=1&timeoutSeconds=4", nil)
	w.update(pod("a", "x", "2", ""))
	w.create(pod("a", "y", "1", ""))
	w.delete("a", "x")
	columns, seen := 0, map[string]int{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		var e struct {
			Type   string
			Object struct {
				Kind              string
				ColumnDefinitions []any
				Rows              []struct{ Cells []any }
			}
		}
		w.must(json.Unmarshal(lines.Bytes(), &e))
		seen[e.Type]++
		if e.Object.Kind != "Table" {
			w.Errorf("%s has a %s: %s", e.Type, e.Object.Kind, lines.Bytes())
		}
		if columns == 0 {
			columns = len(e.Object.ColumnDefinitions)
		}
		if e.Type != "BOOKMARK" && (len(e.Object.Rows) != 1 || len(e.Object.Rows[0].Cells) != columns || columns == 0) {
			w.Errorf("%d columns: %s", columns, lines.Bytes())
		}
	}
	// kube-apiserver writes a pod twice to delete it.
	if seen["ADDED"] != 2 || seen["MODIFIED"] == 0 || seen["DELETED"] != 1 || seen["BOOKMARK"] == 0 {
		w.Errorf("events: %v", seen)
	}
}

// agesInTables repeats this defect: an age in a Table is the age when the object was stored.
func agesInTables(w *World) {
	w.create(pod("a", "x", "1", ""))
	get := w.start(withHistory).served()
	age := func() string {
		var table struct {
			ColumnDefinitions []struct{ Name string }
			Rows              []struct{ Cells []any }
		}
		w.must(json.NewDecoder(get("GET", asTable, "/api/v1/pods", nil).Body).Decode(&table))
		for n, c := range table.ColumnDefinitions {
			if c.Name == "Age" && len(table.Rows) == 1 {
				return fmt.Sprint(table.Rows[0].Cells[n])
			}
		}
		return "none"
	}
	first := age()
	w.eventually(func() bool { return age() != first }, func() string { return "the age stays at " + first })
}

// pagesOfAChangingList repeats this defect: a list in pages lacks or repeats objects during concurrent changes.
func pagesOfAChangingList(w *World) {
	for n := range 40 {
		w.create(pod("a", fmt.Sprintf("x%02d", n), "1", ""))
	}
	r := w.start(withHistory)
	get := r.served()
	var all []string
	var versions []string
	for path, next := "/api/v1/pods?limit=7", ""; ; path = "/api/v1/pods?limit=7&continue=" + next {
		rv, after, names := list(w, get("GET", "application/json", path, nil))
		versions, all, next = append(versions, rv), append(all, names...), after
		if next == "" {
			break
		}
		page := len(versions)
		w.delete("a", fmt.Sprintf("x%02d", 39-page))
		w.create(pod("a", fmt.Sprintf("x%02d-new", 39-page), "1", ""))
		r.saw(fmt.Sprintf("add a/x%02d-new=1", 39-page))
	}
	if len(all) != 40 || !slices.IsSorted(all) || slices.ContainsFunc(all, func(n string) bool { return len(n) > 3 }) {
		w.Errorf("%d objects: %q", len(all), all)
	}
	if len(slices.Compact(versions)) != 1 {
		w.Errorf("pages of %q", versions)
	}
}
