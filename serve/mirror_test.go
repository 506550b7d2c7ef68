package serve_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/store"
)

// TestMirrorOmitsLeftovers checks that a Source from serve.Mirror omits collections that an earlier process left in the
// file, and that mirrored collections return 429 while they are not open.
func TestMirrorOmitsLeftovers(t *testing.T) {
	w := newWorld(t, nil)
	w.fill(2)
	w.close()
	w.close = func() {}
	st, err := store.Open(w.path, store.Options{})
	must(t, err)
	defer func() { must(t, st.Close()) }()
	pods := entry.Identity{GroupVersionResource: podsResource, Representation: entry.Unstructured}
	some, none := pods, pods
	some.LabelSelector, none.Resource = "b=1,a=1", "services" // labels in another order than the store's
	c, err := st.Collection(t.Context(), some, store.CollectionOptions{Codec: codec.Unstructured(), History: 1 << 20,
		Resource: entry.ResourceInfo{Kind: "Pod", Namespaced: true}})
	must(t, err)
	r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
	must(t, err)
	_, err = r.Commit(t.Context(), entry.Batch{ResourceVersion: "5"})
	must(t, err)
	for _, test := range []struct {
		source   serve.Source
		resource string
		want     int
	}{
		{serve.Store(st), "pods", http.StatusOK},
		{serve.Mirror(st, only()), "pods", http.StatusNotFound},
		{serve.Mirror(st, only(pods)), "pods", http.StatusTooManyRequests},
		{serve.Mirror(st, only(some)), "pods?labelSelector=b%3D1,a%3D1", http.StatusOK},
		{serve.Mirror(st, only(none)), "services", http.StatusTooManyRequests},
		{serve.Mirror(st, only(none)), "pods", http.StatusNotFound},
	} {
		h, err := serve.New(test.source, serve.Options{})
		must(t, err)
		r := httptest.NewRecorder()
		h.ServeHTTP(r, httptest.NewRequest("GET", "/api/v1/"+test.resource, nil))
		if r.Code != test.want {
			t.Errorf("%s: %d, want %d: %s", test.resource, r.Code, test.want, r.Body)
		}
		must(t, h.Close())
	}
}

func TestNoListDuringRelist(t *testing.T) {
	w := newWorld(t, nil)
	w.fill(2)
	pods, all := w.client().CoreV1().Pods(""), metav1.ListOptions{}
	id := entry.Identity{GroupVersionResource: podsResource, Representation: entry.Unstructured}
	history := w.store.Opened(id).History()
	history.Disturb()
	r, err := http.Get(w.server.URL + "/api/v1/pods")
	must(t, err)
	must(t, r.Body.Close())
	if r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
		t.Errorf("a list of a mixture: %s %v", r.Status, r.Header)
	}
	_, rv := history.Now()
	history.Restart(rv, true)
	if _, err := pods.List(t.Context(), all); err != nil {
		t.Error(err)
	}
}

// TestTokenFromBeforeACrash checks that the next page after a crash shows the continue token's state once the mirror
// has reached that state again.
func TestTokenFromBeforeACrash(t *testing.T) {
	w := newWorld(t, nil)
	w.fill(4)
	list, err := w.client().CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	rv, err := strconv.Atoi(list.ResourceVersion)
	must(t, err)
	token := func(rv int) metav1.ListOptions {
		text := fmt.Sprintf(`{"v":"meta.k8s.io/v1","rv":%d,"start":"/a/p000\u0000"}`, rv)
		return metav1.ListOptions{Limit: 100, Continue: base64.RawURLEncoding.EncodeToString([]byte(text))}
	}
	type answer struct {
		rv    string
		items int
		err   error
	}
	answered := make(chan answer)
	go func() {
		l, err := w.client().CoreV1().Pods("").List(t.Context(), token(rv+1))
		if err != nil {
			answered <- answer{err: err}
			return
		}
		answered <- answer{rv: l.ResourceVersion, items: len(l.Items)}
	}()
	w.create(newPod("b", "q1"), newPod("b", "q2"))
	if a := <-answered; a.err != nil || a.rv != strconv.Itoa(rv+1) || a.items != 4 {
		t.Errorf("%+v, want 4 objects of %d", a, rv+1)
	}
	if _, err := w.client().CoreV1().Pods("").List(t.Context(), token(-5)); !apierrors.IsBadRequest(err) {
		t.Errorf("a token of no resourceVersion: %v", err)
	}
}

// TestForwardsUnmirrored checks that requests are forwarded even if other objects of their kind are mirrored.
func TestForwardsUnmirrored(t *testing.T) {
	asked := make(chan string, 1)
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	defer api.Close()
	w := newWorld(t, func(id *entry.Identity, o *serve.Options) {
		id.Namespace = "a"
		var err error
		o.Forward, err = serve.Forward(&rest.Config{Host: api.URL}, noUsers{})
		must(t, err)
	})
	known := facts.DiscoveryOf([]*metav1.APIGroup{{Name: "", Versions: []metav1.GroupVersionForDiscovery{
		{GroupVersion: "v1", Version: "v1"}}}}, []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{
		{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: []string{"create", "get"}},
		{Name: "nodes", Kind: "Node", ShortNames: []string{"no"}, Verbs: []string{"delete", "list"}}}}})
	must(t, known.Put(t.Context(), w.store))
	get := func(path, token string) (string, string) {
		r, err := http.NewRequest(http.MethodGet, w.server.URL+path, nil)
		must(t, err)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		body, err := io.ReadAll(answer.Body)
		must(t, err)
		must(t, answer.Body.Close())
		select {
		case path := <-asked:
			return path, string(body)
		default:
			return "", string(body)
		}
	}
	for path, forwarded := range map[string]bool{
		"/api/v1/namespaces/a/pods": false, "/api/v1/namespaces/b/pods": true, "/api/v1/pods": true,
		"/api/v1/namespaces/b/pods/x": true, "/api/v1/nodes": true, "/api/v1/namespaces/a/pods/x/log?follow=true": true,
	} {
		if at, body := get(path, "t"); (at != "") != forwarded {
			t.Errorf("%s: %s, forwarded: %v", path, body, at)
		}
	}
	for token, want := range map[string]string{
		"": `pods Pod get,list,watch`, "t": `nodes Node delete,list; pods Pod create,get,list,watch`,
	} {
		var list metav1.APIResourceList
		_, body := get("/api/v1", token)
		must(t, json.Unmarshal([]byte(body), &list))
		var all []string
		for _, r := range list.APIResources {
			all = append(all, r.Name+" "+r.Kind+" "+strings.Join(r.Verbs, ","))
		}
		if got := strings.Join(all, "; "); got != want {
			t.Errorf("with the token %q discovery has %s, want %s", token, got, want)
		}
	}
}
