package cluster

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
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
	c, err := mustServer(t, config).Connect()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustServer(t *testing.T, config *rest.Config) *Server {
	t.Helper()
	s, err := NewServer(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestListUsesIdentity(t *testing.T) {
	server := clitest.StartServer(t)
	web := map[string]string{"app": "web"}
	clitest.CreatePod(t, server, "a", "x", web)
	clitest.CreatePod(t, server, "a", "y", nil)
	clitest.CreatePod(t, server, "b", "x", web)
	c := mustConnect(t, server.Config())
	for _, tc := range []struct {
		id      entry.Identity
		request string // request is the look-up's field selector, which is combined with that of the collection
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

// TestLookup checks the look-up of a single object. It is a list of metadata with the collection's selectors, so that
// an object that no longer matches the selectors is not found.
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

// TestBytesReceived checks the counters of two resources that share a network connection: a Server counts all network
// traffic, and a Connection the response bodies of its resource.
func TestBytesReceived(t *testing.T) {
	api := clitest.StartServer(t)
	for n := range 300 {
		clitest.CreatePod(t, api, "a", fmt.Sprintf("pod-%03d", n), map[string]string{"app": "web"})
	}
	server := mustServer(t, api.Config())
	mine, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	other, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	api.ResetCounts()
	list, err := mine.ListWatch(clitest.PodsOf("", "", "")).ListWithContext(t.Context(), metav1.ListOptions{})
	if err != nil || meta.LenList(list) != 300 {
		t.Fatalf("%d objects, %v", meta.LenList(list), err)
	}
	server.Close()
	api.Stop() // the byte counters are complete only after the server has closed its connections
	sent, received, bodies := api.Counts(clitest.Pods.GroupVersionResource).BytesSent, server.Received.Bytes(),
		mine.Bodies.Bytes()
	if sent == 0 || received != sent {
		t.Errorf("the server sent %d bytes, %d were counted", sent, received)
	}
	if bodies <= received/2 || bodies >= received {
		t.Errorf("%d bytes of bodies, of %d received", bodies, received)
	}
	if n := other.Bodies.Bytes(); n != 0 {
		t.Errorf("of another resource %d bytes were counted", n)
	}
}

func TestDiscover(t *testing.T) {
	server := clitest.StartServer(t)
	found, err := mustServer(t, server.Config()).Discover(context.Background(), nil)
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
	if _, err := mustServer(t, server.Config()).Discover(context.Background(), nil); err == nil {
		t.Error("no error from a server that is down")
	}
}
