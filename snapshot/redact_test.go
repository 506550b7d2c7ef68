package snapshot_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// secretValue is a value that must not appear anywhere in a redacted snapshot.
const secretValue = "hunter2-secret"

// objectsWithSecrets returns objects that have secretValue wherever a redaction must replace it, and "keep" elsewhere.
func objectsWithSecrets() map[schema.GroupVersionResource][]string {
	data := base64.StdEncoding.EncodeToString([]byte(secretValue))
	env := `"env":[{"name":"DB_PASSWORD","value":"` + secretValue +
		`"},{"name":"MODE","value":"keep"},{"name":"FROM","valueFrom":{"fieldRef":{"fieldPath":"keep"}}}]`
	pod := `"metadata":{"annotations":{"vault.example.com/api-token":"` + secretValue +
		`","note":"keep"}},"spec":{"initContainers":[{"name":"i",` + env + `}],"containers":[{"name":"c","image":"keep",` +
		env + `}]}`
	applied := func(text string) string {
		return `"kubectl.kubernetes.io/last-applied-configuration":` + fmt.Sprintf("%q", text)
	}
	meta := func(name, annotations string) string {
		return `"metadata":{"name":"` + name + `","namespace":"shop","uid":"u-` + name +
			`","resourceVersion":"7","annotations":{` + annotations + `}}`
	}
	return map[schema.GroupVersionResource][]string{
		core("secrets"): {
			`{"apiVersion":"v1","kind":"Secret",` + meta("plain", applied(`{"data":{"p":"`+data+`"}}`)) +
				`,"type":"keep","data":{"password":"` + data + `"}}`,
			`{"apiVersion":"v1","kind":"Secret",` + meta("string", `"a":"keep"`) + `,"stringData":{"password":"` + secretValue +
				`"}}`,
			// This Secret has no data, but its annotation of kubectl apply has a copy of its former data.
			`{"apiVersion":"v1","kind":"Secret",` + meta("was", applied(`{"data":{"p":"`+data+`"}}`)) + `}`,
		},
		core("configmaps"): {
			`{"apiVersion":"v1","kind":"ConfigMap",` + meta("plain", `"a":"keep"`) + `,"data":{"file":"x=` + secretValue +
				`"},"binaryData":{"b":"` + data + `"}}`,
		},
		core("pods"): {
			`{"apiVersion":"v1","kind":"Pod",` + meta("was",
				applied(`{"spec":{"containers":[{"env":[{"name":"DB_PASSWORD","value":"`+secretValue+`"}]}]}}`)) +
				`,"spec":{"containers":[{"name":"keep"}]}}`,
			`{"apiVersion":"v1","kind":"Pod",` + strings.Replace(pod, `"metadata":{`,
				`"metadata":{"name":"web","namespace":"shop","uid":"u","resourceVersion":"7",`, 1) + `}`,
		},
		appsv1.SchemeGroupVersion.WithResource("deployments"): {
			`{"apiVersion":"apps/v1","kind":"Deployment",` + meta("web", applied(`not JSON `+secretValue)) +
				`,"spec":{"template":{` + pod + `}}}`,
		},
		batchv1.SchemeGroupVersion.WithResource("cronjobs"): {
			`{"apiVersion":"batch/v1","kind":"CronJob",` + meta("nightly", `"a":"keep"`) +
				`,"spec":{"schedule":"keep","jobTemplate":{"spec":{"template":{` + pod + `}}}}}`,
		},
		appsv1.SchemeGroupVersion.WithResource("controllerrevisions"): {
			`{"apiVersion":"apps/v1","kind":"ControllerRevision",` + meta("web-1", "") +
				`,"revision":1,"data":{"spec":{"template":{` + pod + `}}}}`,
		},
	}
}

var kindsWithSecrets = map[string]string{
	"secrets": "Secret", "configmaps": "ConfigMap", "pods": "Pod", "deployments": "Deployment",
	"controllerrevisions": "ControllerRevision", "cronjobs": "CronJob",
}

var redactAll = snapshot.Redaction{Secrets: true, ConfigMaps: true, Annotations: []string{"*TOKEN"},
	Env: []string{"*password*"}, ManagedFields: true}

func sourceWithSecrets(t *testing.T, r entry.Representation) (src memorySource) {
	t.Helper()
	for resource, texts := range objectsWithSecrets() {
		of := contentOf{collection: collectionOf(resource, kindsWithSecrets[resource.Resource], r)}
		for _, text := range texts {
			of.records = append(of.records, recordOf(t, of.collection, text))
		}
		src = append(src, of)
	}
	if r == entry.Unstructured {
		widgets := collectionOf(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"},
			"Widget", r)
		src = append(src, contentOf{widgets, []entry.Entry{recordOf(t, widgets,
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","uid":"u","resourceVersion":"7"},"spec":{"env":{"ADMIN_PASSWORD":"`+secretValue+`"},"job":{"env":["DB_PASSWORD=`+secretValue+`","MODE=keep"]},`+
				`"manifest":{"metadata":{"annotations":{"note":"keep","kubectl.kubernetes.io/last-applied-configuration":"{\"spec\":{\"env\":{\"ADMIN_PASSWORD\":\"`+secretValue+`\"}}}"}}},"large":12345678901234567,"f":1.0,"keep":"keep"}}`)}})
	}
	return src
}

// unpacked returns a snapshot's bytes, followed by its uncompressed blocks, to be searched for a text.
func unpacked(t *testing.T, data []byte) (all []byte) {
	t.Helper()
	all = append(all, data...)
	for _, block := range blocksIn(t, data) {
		all = append(all, block...)
	}
	return all
}

func hasSecretValue(data []byte) bool {
	return bytes.Contains(data, []byte(secretValue)) ||
		bytes.Contains(data, []byte(base64.StdEncoding.EncodeToString([]byte(secretValue))))
}

// TestRedactionReachesEverything also checks that values that no rule covers are unchanged.
func TestRedactionReachesEverything(t *testing.T) {
	for _, r := range []entry.Representation{entry.Typed, entry.Unstructured} {
		t.Run(string(r), func(t *testing.T) {
			src := sourceWithSecrets(t, r)
			write := func(o snapshot.SelectOptions) []byte {
				path := filepath.Join(t.TempDir(), "a.larder")
				saved := snapshot.SaveOptions{Secrets: true, SelectOptions: o}
				if _, err := snapshot.Save(t.Context(), src, path, saved); err != nil {
					t.Fatal(err)
				}
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				return data
			}
			if !hasSecretValue(unpacked(t, write(snapshot.SelectOptions{}))) {
				t.Fatal("the snapshot without redaction lacks the secret")
			}
			data := write(snapshot.SelectOptions{Redaction: redactAll})
			if hasSecretValue(unpacked(t, data)) {
				t.Error("the secret is in the snapshot")
			}
			f, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := f.Manifest().Redaction; !reflect.DeepEqual(*got, redactAll) {
				t.Errorf("the manifest says %+v", got)
			}
			checkRedacted(t, src, f)
		})
	}
}

// checkRedacted checks that the objects of a redacted snapshot differ from the originals only in redacted values.
func checkRedacted(t *testing.T, before memorySource, f *snapshot.File) {
	t.Helper()
	for i, c := range f.Manifest().Collections {
		if !strings.HasPrefix(c.MustRelist, "objects were redacted (") || len(c.Redacted) == 0 {
			t.Errorf("%s can be resumed: %q", c.Identity, c.MustRelist)
		}
		was, is := decoded(t, before, before[i].collection), decoded(t, f, c)
		if len(was) != len(is) {
			t.Fatalf("%s: %d objects of %d", c.Identity, len(is), len(was))
		}
		for key, object := range is {
			n := compareRedacted(t, c.Identity.String()+" "+key, was[key], object)
			if n == 0 {
				t.Errorf("%s %s: nothing was redacted", c.Identity, key)
			}
		}
	}
}

// compareRedacted counts the redacted values between two JSON values, and reports any other difference.
func compareRedacted(t *testing.T, where string, was, is any) (n int) {
	t.Helper()
	switch v := is.(type) {
	case map[string]any:
		w, _ := was.(map[string]any)
		if len(w) != len(v) {
			t.Errorf("%s: fields %v, were %v", where, v, w)
		}
		for name, field := range v {
			n += compareRedacted(t, where+"."+name, w[name], field)
		}
	case []any:
		w, _ := was.([]any)
		if len(w) != len(v) {
			t.Fatalf("%s: %d items, were %d", where, len(v), len(w))
		}
		for i, item := range v {
			n += compareRedacted(t, fmt.Sprintf("%s[%d]", where, i), w[i], item)
		}
	default:
		text, _ := is.(string)
		if is == redactedText || is == redactedData || strings.HasSuffix(text, "="+redactedText) {
			if s := fmt.Sprint(was); !hasSecretValue([]byte(s)) {
				t.Errorf("%s was redacted without need: %v", where, was)
			}
			return 1
		}
		if !reflect.DeepEqual(was, is) {
			t.Errorf("%s: %v, was %v", where, is, was)
		}
	}
	return n
}

// TestRedactionOfMetadata checks that the annotation of kubectl apply is redacted in collections of metadata, too.
func TestRedactionOfMetadata(t *testing.T) {
	c := collectionOf(core("secrets"), "Secret", entry.Metadata)
	r := recordOf(t, collectionOf(core("secrets"), "Secret", entry.Unstructured), objectsWithSecrets()[core("secrets")][0])
	src, err := snapshot.Select(memorySource{{c, []entry.Entry{r}}},
		snapshot.SelectOptions{Redaction: snapshot.Redaction{Secrets: true}})
	if err != nil {
		t.Fatal(err)
	}
	for key, object := range decoded(t, src, c) {
		if a := (&unstructured.Unstructured{Object: object}).GetAnnotations()[lastApplied]; a != redactedText {
			t.Errorf("%s: %s", key, a)
		}
	}
}

func TestManagedFieldsAreRemoved(t *testing.T) {
	for _, r := range []entry.Representation{entry.Typed, entry.Unstructured} {
		c := collectionOf(core("nodes"), "Node", r)
		rec := recordOf(t, c,
			`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","managedFields":[{"manager":"kubelet","fieldsType":"FieldsV1","fieldsV1":{"f:a":{}}}],"annotations":{"`+lastApplied+`":"keep"}}}`)
		src, err := snapshot.Select(memorySource{{c, []entry.Entry{rec}}},
			snapshot.SelectOptions{Redaction: snapshot.Redaction{ManagedFields: true}})
		if err != nil {
			t.Fatal(err)
		}
		metadata := decoded(t, src, c)["n"]["metadata"].(map[string]any)
		if metadata["managedFields"] != nil || metadata["annotations"].(map[string]any)[lastApplied] != "keep" {
			t.Errorf("%s: %v", r, metadata)
		}
	}
}

// TestUnknownTypes checks that objects of unknown types pass unchanged if no rule decodes them.
func TestUnknownTypes(t *testing.T) {
	c := collectionOf(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, "Widget",
		entry.Typed)
	r := entry.Entry{Key: "a/w", UID: "u", ResourceVersion: "1", Encoding: encodingProtobuf,
		Payload: []byte("\x00\x00anything")}
	src := memorySource{{c, []entry.Entry{r}}}
	read := func(o snapshot.SelectOptions) (n int, err error) {
		s, err := snapshot.Select(src, o)
		if err != nil {
			t.Fatal(err)
		}
		return n, s.Records(t.Context(), c.Identity, func(got entry.Entry) error {
			if !sameRecord(got, r) {
				t.Error("it was changed")
			}
			n++
			return nil
		})
	}
	for _, o := range []snapshot.SelectOptions{
		{}, {Redaction: snapshot.Redaction{Secrets: true,
			ConfigMaps: true}}, {Filter: snapshot.Filter{Namespaces: []string{"a"}, Resources: []string{"widget"}}},
	} {
		if n, err := read(o); n != 1 || err != nil {
			t.Errorf("%+v: %d, %v", o, n, err)
		}
	}
	for _, o := range []snapshot.SelectOptions{{Redaction: snapshot.Redaction{Env: []string{"x"}}},
		{Filter: snapshot.Filter{Labels: "a=b"}}} {
		_, err := read(o)
		if !errors.Is(err, snapshot.ErrUndecodable) || !strings.Contains(err.Error(), `"a/w" (Widget, in protobuf)`) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestFilter(t *testing.T) {
	pods := collectionOf(core("pods"), "Pod", entry.Typed)
	pods.Resource.ShortNames, pods.Resource.Singular = []string{"po"}, "pod"
	pod := func(ns, name, app, phase string) entry.Entry {
		return recordOf(t, pods,
			fmt.Sprintf(
				`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":%q,"name":%q,"labels":{"app":%q}},"status":{"phase":%q}}`,
				ns, name, app, phase))
	}
	nodes := collectionOf(core("nodes"), "Node", entry.Typed)
	inShop := collectionOf(core("services"), "Service", entry.Typed)
	inShop.Identity.Namespace = "shop"
	deployments := collectionOf(appsv1.SchemeGroupVersion.WithResource("deployments"), "Deployment", entry.Typed)
	src := memorySource{
		{pods, []entry.Entry{pod("bank", "x", "web", "Running"), pod("shop", "a", "web", "Running"),
			pod("shop", "b", "db", "Failed"), pod("shop2", "c", "web", "Running")}},
		{nodes, []entry.Entry{recordOf(t, nodes, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"shop"}}`)}},
		{inShop,
			[]entry.Entry{recordOf(t, inShop,
				`{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"shop","name":"s"}}`)}},
		{deployments, nil},
	}
	for _, c := range []struct {
		filter snapshot.Filter
		want   string
	}{
		{snapshot.Filter{}, "pods: bank/x shop/a shop/b shop2/c; nodes: shop; services: shop/s; deployments:"},
		{snapshot.Filter{Namespaces: []string{"shop"}}, "pods*: shop/a shop/b; services: shop/s; deployments*:"},
		{snapshot.Filter{Namespaces: []string{"bank", "shop2"}}, "pods*: bank/x shop2/c; deployments*:"},
		{snapshot.Filter{Resources: []string{"po", "deployments.apps"}}, "pods: bank/x shop/a shop/b shop2/c; deployments:"},
		{snapshot.Filter{Resources: []string{"Node", "deploy"}}, "nodes: shop"},
		{snapshot.Filter{Resources: []string{"pods.v1", "Deployment.v1.apps"}, Labels: "app=web",
			Fields: "status.phase=Running"}, "pods*: bank/x shop/a shop2/c; deployments*:"},
		{snapshot.Filter{Resources: []string{"pods.apps", "deployments.v1", "pods.v2"}}, ""},
		{snapshot.Filter{Resources: []string{"pods"}, Labels: "app!=web"}, "pods*: shop/b"},
		{snapshot.Filter{Resources: []string{"pods"}, Fields: "metadata.name=a"}, "pods*: shop/a"},
	} {
		s, err := snapshot.Select(src, snapshot.SelectOptions{Filter: c.filter})
		if err != nil {
			t.Fatal(err)
		}
		if got := listing(t, s); got != c.want {
			t.Errorf("%+v:\n%s, want\n%s", c.filter, got, c.want)
		}
	}
	for _, bad := range []snapshot.SelectOptions{
		{Filter: snapshot.Filter{Labels: "a in"}}, {Filter: snapshot.Filter{Fields: "a"}},
		{Redaction: snapshot.Redaction{Env: []string{""}}}, {Redaction: snapshot.Redaction{Annotations: []string{""}}},
	} {
		if _, err := snapshot.Select(src, bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// listing returns the contents of a source as text, with a star after each collection that cannot be resumed.
func listing(t *testing.T, s snapshot.Source) string {
	t.Helper()
	all, err := s.Collections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, c := range all {
		part := c.Identity.Resource
		if c.MustRelist != "" {
			part += "*"
			if len(c.Filtered) == 0 || !strings.Contains(c.MustRelist, c.Filtered[0]) {
				t.Errorf("%s: %q, %q", c.Identity, c.MustRelist, c.Filtered)
			}
		}
		part += ":"
		err := s.Records(t.Context(), c.Identity, func(r entry.Entry) error { part += " " + r.Key; return nil })
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

func TestSelectKeepsReasons(t *testing.T) {
	c := collectionOf(core("pods"), "Pod", entry.Typed)
	c.MustRelist, c.Redacted = "it was old", []string{"before"}
	s, err := snapshot.Select(memorySource{{c, nil}}, snapshot.SelectOptions{Redaction: redactAll})
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Collections(t.Context())
	if err != nil || all[0].MustRelist != "it was old" || all[0].Redacted[0] != "before" || len(all[0].Redacted) < 2 {
		t.Errorf("%+v, %v", all, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := snapshot.Save(ctx, s, filepath.Join(t.TempDir(), "a.larder"),
		snapshot.SaveOptions{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestRedactionOfTrailingData checks that a payload with data after its JSON object is refused: the redaction would not
// reach that data. Found by FuzzDecode.
func TestRedactionOfTrailingData(t *testing.T) {
	secrets := collectionOf(core("secrets"), "Secret", entry.Typed)
	r := entry.Entry{Key: "a/a", UID: "u", Encoding: encodingMsgpack, Payload: binOf(`{}{"data":"` + secretValue + `"}`)}
	src, err := snapshot.Select(memorySource{{secrets, []entry.Entry{r}}}, snapshot.SelectOptions{Redaction: redactAll})
	if err != nil {
		t.Fatal(err)
	}
	err = src.Records(t.Context(), secrets.Identity, func(entry.Entry) error {
		t.Error("it went past the redaction")
		return nil
	})
	if !errors.Is(err, snapshot.ErrDamaged) {
		t.Error(err)
	}
}

// binOf encodes a text of fewer than 256 bytes as a msgpack bin value.
func binOf(text string) []byte { return append([]byte{0xc4, byte(len(text))}, text...) }
