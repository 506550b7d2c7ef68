package cli

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
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/fakeapi"
)

func startServer(t *testing.T) *fakeapi.Server {
	t.Helper()
	server := fakeapi.New(fakeapi.Options{})
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

func createPod(
	t *testing.T, server *fakeapi.Server, namespace, name string, labels map[string]string,
) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{}}}
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetLabels(labels)
	created, err := server.Create(clitest.Pods.GroupVersionResource, u)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func mustConnect(t *testing.T, config *rest.Config) *connection {
	t.Helper()
	c, err := connect(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

func podsOf(namespace, labels, fields string) entry.Identity {
	return entry.Identity{
		GroupVersionResource: clitest.Pods.GroupVersionResource, Namespace: namespace, LabelSelector: labels, FieldSelector: fields,
		Representation: entry.Unstructured,
	}
}

func TestListAsksForTheIdentity(t *testing.T) {
	server := startServer(t)
	web := map[string]string{"app": "web"}
	createPod(t, server, "a", "x", web)
	createPod(t, server, "a", "y", nil)
	createPod(t, server, "b", "x", web)
	c := mustConnect(t, server.Config())
	for _, tc := range []struct {
		id      entry.Identity
		request string // a field selector of the request's own
		want    []string
	}{
		{podsOf("", "", ""), "", []string{"a/x", "a/y", "b/x"}},
		{podsOf("a", "", ""), "", []string{"a/x", "a/y"}},
		{podsOf("", "app=web", ""), "", []string{"a/x", "b/x"}},
		{podsOf("", "", "metadata.name=x"), "", []string{"a/x", "b/x"}},
		{podsOf("", "", "metadata.name=x"), "metadata.namespace=b", []string{"b/x"}},
		{podsOf("", "app=web", ""), "metadata.namespace=a", []string{"a/x"}},
	} {
		list, err := c.listWatch(tc.id).ListWithContext(context.Background(), metav1.ListOptions{FieldSelector: tc.request})
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
	server := startServer(t)
	web := createPod(t, server, "a", "x", map[string]string{"app": "web"})
	createPod(t, server, "a", "xx", nil)
	c := mustConnect(t, server.Config())
	for _, tc := range []struct {
		id        entry.Identity
		namespace string
		found     bool
	}{
		{podsOf("", "", ""), "a", true},
		{podsOf("a", "", ""), "a", true},
		{podsOf("", "app=web", ""), "a", true},
		{podsOf("", "app=db", ""), "a", false},
		{podsOf("", "", "metadata.name!=x"), "a", false},
		{podsOf("", "", ""), "b", false},
	} {
		o := metav1.ListOptions{Limit: 1, FieldSelector: "metadata.name=x,metadata.namespace=" + tc.namespace}
		list, err := requests.ListMetadata(c.raw, tc.id)(t.Context(), o)
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
	server := startServer(t)
	for _, name := range []string{"x", "y", "z"} {
		createPod(t, server, "a", name, map[string]string{"app": "web"})
	}
	mine, other := mustConnect(t, server.Config()), mustConnect(t, server.Config())
	server.ResetCounts()
	resp, err := mine.http.Do(mustRequest(t, server.Config().Host+"/api/v1/pods"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	mine.http.CloseIdleConnections()
	server.Stop() // only then has everything been counted
	sent, received := server.Counts(clitest.Pods.GroupVersionResource).BytesSent, mine.received.Bytes()
	if sent == 0 || received != sent {
		t.Errorf("the server sent %d bytes, %d were counted", sent, received)
	}
	if n := other.received.Bytes(); n != 0 {
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
	server := startServer(t)
	found, err := discover(context.Background(), server.Config())
	if err != nil {
		t.Fatal(err)
	}
	got := input.MatchResource("po", found.all)
	if len(got) != 1 || got[0].Full() != clitest.Pods.Full() || got[0].Kind != "Pod" || got[0].Singular != "pod" ||
		!got[0].Namespaced {
		t.Errorf("got %+v", got)
	}
	if got := input.MatchResource("deploy", found.all); len(got) != 1 || got[0].Full() != clitest.Deployments.Full() {
		t.Errorf("got %+v", got)
	}
	server.Stop()
	if _, err := discover(context.Background(), server.Config()); err == nil {
		t.Error("no error from a server that is down")
	}
}
