package fakeapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPagesAreOneState(t *testing.T) {
	for _, contentType := range contentTypes {
		s := start(t, Options{})
		load(t, s, 10)
		ctx := testContext(t)
		pods := typed(t, s, contentType).CoreV1().Pods("")
		at := s.RV()
		var names []string
		options := metav1.ListOptions{Limit: 4}
		for page := 0; ; page++ {
			list, err := pods.List(ctx, options)
			must(t, err)
			if list.ResourceVersion != at {
				t.Errorf("page %d is at %s, the list began at %s", page, list.ResourceVersion, at)
			}
			for _, p := range list.Items {
				names = append(names, p.Name+p.Labels["changed"])
			}
			left := int64(10 - len(names))
			if left > 0 && (list.RemainingItemCount == nil || *list.RemainingItemCount != left) {
				t.Errorf("page %d says that %v remain, not %d", page, list.RemainingItemCount, left)
			}
			// A later page must show the state at the first page, without these writes.
			must(t, s.Delete(podsGVR, "default", fmt.Sprintf("pod-%05d", 9-page)))
			must(t, s.Load(podsGVR, pod("default", fmt.Sprintf("pod-00005-%d", page), nil)))
			_, err = s.Update(podsGVR, pod("default", fmt.Sprintf("pod-%05d", 6-page), map[string]string{"changed": "yes"}))
			must(t, err)
			if options.Continue = list.Continue; options.Continue == "" {
				break
			}
		}
		want := "[pod-00000 pod-00001 pod-00002 pod-00003 pod-00004 pod-00005 pod-00006 pod-00007 pod-00008 pod-00009]"
		if got := fmt.Sprint(names); got != want {
			t.Errorf("%s: the pages held %s", contentType, got)
		}
		if c := s.Counts(podsGVR); c.Lists != 3 || c.Probes != 0 {
			t.Errorf("counts: %+v", c)
		}
	}
}

func TestContinueExpires(t *testing.T) {
	s := start(t, Options{})
	load(t, s, 5)
	ctx := testContext(t)
	pods := typed(t, s, contentJSON).CoreV1().Pods("default")
	first, err := pods.List(ctx, metav1.ListOptions{Limit: 2})
	must(t, err)
	must(t, s.Load(podsGVR, pod("default", "pod-00003-new", nil)))
	s.Compact()
	_, err = pods.List(ctx, metav1.ListOptions{Limit: 2, Continue: first.Continue})
	if !errors.IsResourceExpired(err) {
		t.Fatalf("an expired token gave %v", err)
	}
	token := err.(errors.APIStatus).Status().Continue
	if token == "" || err.(errors.APIStatus).Status().Code != http.StatusGone {
		t.Fatalf("no token to go on with: %+v", err.(errors.APIStatus).Status())
	}
	rest, err := pods.List(ctx, metav1.ListOptions{Continue: token})
	must(t, err)
	if len(rest.Items) != 4 || rest.Items[0].Name != "pod-00002" || rest.Items[2].Name != "pod-00003-new" ||
		rest.ResourceVersion != s.RV() {
		t.Errorf("the inconsistent rest: %d items at %s", len(rest.Items), rest.ResourceVersion)
	}
	if _, err := pods.List(ctx, metav1.ListOptions{Continue: "nonsense"}); !errors.IsBadRequest(err) {
		t.Errorf("a bad token gave %v", err)
	}
}

func TestListResourceVersions(t *testing.T) {
	s := start(t, Options{StartRV: 100})
	ctx := testContext(t)
	load(t, s, 3) // the pods are at resourceVersions 102 to 104, after the two namespaces
	pods := typed(t, s, contentProtobuf).CoreV1().Pods("")
	exact := metav1.ResourceVersionMatchExact
	notOlder := metav1.ResourceVersionMatchNotOlderThan
	for _, c := range []struct {
		name  string
		o     metav1.ListOptions
		items int
		rv    string
		err   func(error) bool
	}{
		{name: "none", items: 3, rv: "104"},
		{name: "zero does not page", o: metav1.ListOptions{ResourceVersion: "0", Limit: 1}, items: 3, rv: "104"},
		{name: "old", o: metav1.ListOptions{ResourceVersion: "103"}, items: 3, rv: "104"},
		{name: "not older", o: metav1.ListOptions{ResourceVersion: "103", ResourceVersionMatch: notOlder}, items: 3,
			rv: "104"},
		{name: "exact", o: metav1.ListOptions{ResourceVersion: "103", ResourceVersionMatch: exact}, items: 2, rv: "103"},
		{name: "a limit makes exact", o: metav1.ListOptions{ResourceVersion: "103", Limit: 9}, items: 2, rv: "103"},
		{name: "exact before history", o: metav1.ListOptions{ResourceVersion: "98", ResourceVersionMatch: exact},
			err: errors.IsResourceExpired},
		{name: "zero exact", o: metav1.ListOptions{ResourceVersion: "0", ResourceVersionMatch: exact}, err: errors.IsInvalid},
		{name: "match alone", o: metav1.ListOptions{ResourceVersionMatch: exact}, err: errors.IsInvalid},
		{name: "not a number", o: metav1.ListOptions{ResourceVersion: "x"}, err: errors.IsBadRequest},
		{name: "unknown field", o: metav1.ListOptions{FieldSelector: "spec.x=y"}, err: errors.IsBadRequest},
	} {
		list, err := pods.List(ctx, c.o)
		switch {
		case c.err != nil:
			if !c.err(err) {
				t.Errorf("%s: %v", c.name, err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case len(list.Items) != c.items || list.ResourceVersion != c.rv:
			t.Errorf("%s: %d items at %s, not %d at %s", c.name, len(list.Items), list.ResourceVersion, c.items, c.rv)
		}
	}
}

// TestListFromTheFuture checks the error of a list at a future resourceVersion. It does not use client-go, which would
// retry for ten seconds because of Retry-After.
func TestListFromTheFuture(t *testing.T) {
	s := start(t, Options{StartRV: 100}) // the two namespaces are written first, so the current resourceVersion is 101
	for _, match := range []string{"", "&resourceVersionMatch=Exact", "&limit=1"} {
		response, body := get(t, s, "/api/v1/pods?resourceVersion=105"+match, nil)
		var status metav1.Status
		must(t, json.Unmarshal(body, &status))
		err := &errors.StatusError{ErrStatus: status}
		if !errors.IsTimeout(err) || !errors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) ||
			response.StatusCode != http.StatusGatewayTimeout || response.Header.Get("Retry-After") != "1" {
			t.Errorf("%s: %d %+v", match, response.StatusCode, status)
		}
		if want := "Timeout: Too large resource version: 105, current: 101"; status.Message != want {
			t.Errorf("%s: said %q, not %q", match, status.Message, want)
		}
	}
}

func TestSelectors(t *testing.T) {
	s := start(t, Options{})
	ctx := testContext(t)
	client := typed(t, s, contentProtobuf).CoreV1()
	must(t, s.Load(podsGVR,
		pod("zz0", "a", map[string]string{"app": "x"}), pod("zz", "a", map[string]string{"app": "x"}),
		pod("zz-x", "a", map[string]string{"app": "y"}), pod("zz", "b", nil)))
	other := pod("zz", "c", map[string]string{"app": "x"})
	other.Spec.NodeName, other.Status.Phase = "node-2", "Pending"
	must(t, s.Load(podsGVR, other))
	for _, c := range []struct {
		namespace string
		o         metav1.ListOptions
		want      string
	}{
		{"", metav1.ListOptions{}, "[zz-x/a zz/a zz/b zz/c zz0/a]"},
		{"zz", metav1.ListOptions{}, "[zz/a zz/b zz/c]"},
		{"zz", metav1.ListOptions{LabelSelector: "app"}, "[zz/a zz/c]"},
		{"", metav1.ListOptions{LabelSelector: "app in (x)"}, "[zz/a zz/c zz0/a]"},
		{"", metav1.ListOptions{LabelSelector: "app!=x"}, "[zz-x/a zz/b]"},
		{"", metav1.ListOptions{FieldSelector: "spec.nodeName=node-2"}, "[zz/c]"},
		{"", metav1.ListOptions{FieldSelector: "status.phase!=Pending", LabelSelector: "app=x"}, "[zz/a zz0/a]"},
		{"", metav1.ListOptions{FieldSelector: "metadata.name=a,metadata.namespace=zz"}, "[zz/a]"},
		{"nowhere", metav1.ListOptions{}, "[]"},
	} {
		got := []string{}
		o := c.o
		for o.Limit = 2; ; {
			list, err := client.Pods(c.namespace).List(ctx, o)
			must(t, err)
			for _, p := range list.Items {
				got = append(got, p.Namespace+"/"+p.Name)
			}
			if (c.o.LabelSelector != "" || c.o.FieldSelector != "") && list.RemainingItemCount != nil {
				t.Errorf("%q %+v: a list with selectors said how many remain", c.namespace, c.o)
			}
			if o.Continue = list.Continue; o.Continue == "" {
				break
			}
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%q %+v: %v, not %s", c.namespace, c.o, got, c.want)
		}
	}
}
