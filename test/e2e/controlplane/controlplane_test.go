package controlplane

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestRequestKinds(t *testing.T) {
	for query, want := range map[string]string{
		"limit=1":                               "probe",
		"limit=1&continue=abc":                  "list",
		"limit=2000":                            "list",
		"":                                      "list",
		"limit=1&fieldSelector=metadata.name=a": "lookup",
		"limit=1&timeoutSeconds=1":              "compare",
		"limit=2000&timeoutSeconds=1":           "compare",
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		r := Request{Verb: "list", Query: q}
		got := map[bool]string{true: "list"}[r.List()] + map[bool]string{true: "probe"}[r.Probe()] +
			map[bool]string{true: "lookup"}[r.Lookup()] +
			map[bool]string{true: "compare"}[r.Compare()]
		if got != want {
			t.Errorf("?%s is a %q, want %q", query, got, want)
		}
	}
}

func TestReadAudit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log := `{"auditID":"1","stage":"RequestReceived","requestURI":"/api/v1/pods?limit=1","verb":"list","userAgent":"a","objectRef":{"resource":"pods"}}
{"auditID":"2","stage":"RequestReceived","requestURI":"/api/v1/pods?watch=1","verb":"watch","userAgent":"b","objectRef":{"resource":"pods"}}
{"auditID":"1","stage":"ResponseComplete","requestURI":"/api/v1/pods?limit=1","verb":"list","userAgent":"a","responseStatus":{"code":200}}
{"auditID":"2","stage":"Respon`
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readAudit(path, 0, "a")
	if err != nil || len(got) != 1 || got[0].Code != 200 || !got[0].Probe() {
		t.Fatalf("client a: %v, %v", got, err)
	}
	if got, err = readAudit(path, 0, ""); err != nil || len(got) != 2 {
		t.Fatalf("all: %v, %v", got, err)
	}
}

func TestSumSeries(t *testing.T) {
	text := []byte("# HELP apiserver_request_total x\n" +
		`apiserver_request_total{code="200",resource="pods",scope="cluster",subresource="",verb="LIST"} 3` + "\n" +
		`apiserver_request_total{code="200",resource="pods",scope="namespace",subresource="",verb="LIST"} 4` + "\n" +
		`apiserver_request_total{code="200",resource="pods",scope="cluster",subresource="",verb="WATCH"} 5` + "\n")
	got, err := sumSeries(text, "apiserver_request_total", `resource="pods"`, `verb="LIST"`)
	if err != nil || got != 7 {
		t.Fatalf("sum = %d, %v; want 7", got, err)
	}
}

func TestAccidents(t *testing.T) {
	ctx := t.Context()
	c, err := Start(ctx, Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := kubernetes.NewForConfig(c.Config("test"))
	if err != nil {
		t.Fatal(err)
	}
	create(t, client, "before")
	first := clusterID(t, client)
	backup, err := c.Backup(ctx)
	if err != nil {
		t.Fatal(err)
	}
	create(t, client, "after")
	if err := c.Restore(ctx, backup); err != nil {
		t.Fatal(err)
	}
	if !exists(t, client, "before") || exists(t, client, "after") || clusterID(t, client) != first {
		t.Error("the restored cluster is not the one that was backed up")
	}
	if err := c.Compact(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Reset(ctx); err != nil {
		t.Fatal(err)
	}
	if exists(t, client, "before") || clusterID(t, client) == first {
		t.Error("the reset cluster is the old one")
	}
	requests, err := c.Requests("test", 0)
	if err != nil || len(requests) == 0 || requests[0].Verb != "create" || requests[0].Code != 201 {
		t.Errorf("requests: %v, %v", requests, err)
	}
}

func create(t *testing.T, c kubernetes.Interface, name string) {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func exists(t *testing.T, c kubernetes.Interface, name string) bool {
	t.Helper()
	_, err := c.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

func clusterID(t *testing.T, c kubernetes.Interface) string {
	t.Helper()
	ns, err := c.CoreV1().Namespaces().Get(context.Background(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(ns.UID)
}
