package cluster

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/source"
)

func mustConnect(t *testing.T, config *rest.Config) *Connection {
	t.Helper()
	c, err := Connect(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.HTTP.CloseIdleConnections)
	return c
}

func TestListAsksForTheIdentity(t *testing.T) {
	server := clitest.StartServer(t)
	web := map[string]string{"app": "web"}
	clitest.CreatePod(t, server, "a", "x", web)
	clitest.CreatePod(t, server, "a", "y", nil)
	clitest.CreatePod(t, server, "b", "x", web)
	c := mustConnect(t, server.Config())
	for _, tc := range []struct {
		id      entry.Identity
		request string // a field selector of the request's own
		want    []string
	}{
		{clitest.PodsOf("", "", ""), "", []string{"a/x", "a/y", "b/x"}},
		{clitest.PodsOf("a", "", ""), "", []string{"a/x", "a/y"}},
		{clitest.PodsOf("", "app=web", ""), "", []string{"a/x", "b/x"}},
		{clitest.PodsOf("", "", "metadata.name=x"), "", []string{"a/x", "b/x"}},
		{clitest.PodsOf("", "", "metadata.name=x"), "metadata.namespace=b", []string{"b/x"}},
		{clitest.PodsOf("", "app=web", ""), "metadata.namespace=a", []string{"a/x"}},
	} {
		list, err := c.ListWatch(tc.id).ListWithContext(context.Background(), metav1.ListOptions{FieldSelector: tc.request})
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, u := range list.(*unstructured.UnstructuredList).Items {
			got = append(got, u.GetNamespace()+"/"+u.GetName())
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s: %s", tc.id, d)
		}
	}
}

// TestLookup: a look-up is a list by metadata with the mirror's selectors, so an object that has left the selection is
// gone.
func TestLookup(t *testing.T) {
	server := clitest.StartServer(t)
	web := clitest.CreatePod(t, server, "a", "x", map[string]string{"app": "web"})
	clitest.CreatePod(t, server, "a", "xx", nil)
	c := mustConnect(t, server.Config())
	for _, tc := range []struct {
		id        entry.Identity
		namespace string
		found     bool
	}{
		{clitest.PodsOf("", "", ""), "a", true},
		{clitest.PodsOf("a", "", ""), "a", true},
		{clitest.PodsOf("", "app=web", ""), "a", true},
		{clitest.PodsOf("", "app=db", ""), "a", false},
		{clitest.PodsOf("", "", "metadata.name!=x"), "a", false},
		{clitest.PodsOf("", "", ""), "b", false},
	} {
		o := metav1.ListOptions{Limit: 1, FieldSelector: "metadata.name=x,metadata.namespace=" + tc.namespace}
		list, err := requests.ListMetadata(c.Raw, tc.id)(t.Context(), o)
		if err != nil || (len(list.Items) == 1) != tc.found {
			t.Errorf("%s, %s: %+v, %v", tc.id, tc.namespace, list, err)
		}
		if tc.found && (list.Items[0].UID != web.GetUID() || list.Items[0].ResourceVersion != web.GetResourceVersion()) {
			t.Errorf("%s, %s: got %+v", tc.id, tc.namespace, list.Items[0])
		}
	}
}

// What is counted is what the network carried: headers, and the body as it was compressed.
func TestBytesReceived(t *testing.T) {
	server := clitest.StartServer(t)
	for _, name := range []string{"x", "y", "z"} {
		clitest.CreatePod(t, server, "a", name, map[string]string{"app": "web"})
	}
	mine, other := mustConnect(t, server.Config()), mustConnect(t, server.Config())
	server.ResetCounts()
	resp, err := mine.HTTP.Do(mustRequest(t, server.Config().Host+"/api/v1/pods"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	mine.HTTP.CloseIdleConnections()
	server.Stop() // only then has everything been counted
	sent, received := server.Counts(clitest.Pods.GroupVersionResource).BytesSent, mine.Received.Bytes()
	if sent == 0 || received != sent {
		t.Errorf("the server sent %d bytes, %d were counted", sent, received)
	}
	if n := other.Received.Bytes(); n != 0 {
		t.Errorf("another connection counted %d bytes", n)
	}
}

func mustRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestDiscover(t *testing.T) {
	server := clitest.StartServer(t)
	found, err := Discover(context.Background(), server.Config(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := source.Match("po", found.All)
	if got.Full() != clitest.Pods.Full() || got.Kind != "Pod" || got.Singular != "pod" || !got.Namespaced {
		t.Errorf("got %+v", got)
	}
	if got, _ := source.Match("deploy", found.All); got.Full() != clitest.Deployments.Full() {
		t.Errorf("got %+v", got)
	}
	server.Stop()
	if _, err := Discover(context.Background(), server.Config(), nil); err == nil {
		t.Error("no error from a server that is down")
	}
}
