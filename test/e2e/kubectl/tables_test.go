package kubectl

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/discovery"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/columns"
	"github.com/larder-dev/larder/test/e2e/controlplane"
)

func TestEveryKind(t *testing.T) {
	server, err := controlplane.Start(t.Context(), controlplane.Options{Args: []string{
		"--runtime-config=api/all=true", "--feature-gates=AllAlpha=true,AllBeta=true",
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}()
	c := newCreatorOf(t, server)
	for _, file := range []string{"objects.yaml", "others.yaml", "alpha.yaml", "lives.yaml"} {
		c.createAll(file)
	}
	c.createSigningRequests()
	c.createCertificates()
	d, err := discovery.NewDiscoveryClientForConfig(server.Config(controlplane.Writer))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("tables", func(t *testing.T) { c.testTables(t, d) })
	t.Run("export", func(t *testing.T) { c.testExport(t, d, server.Config("")) })
}

// testTables checks that larder's columns and rows equal the Tables of kube-apiserver, for every listable resource
// (issue 38, E.15).
func (c *creator) testTables(t *testing.T, d *discovery.DiscoveryClient) {
	_, lists, err := d.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var kinds int
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") {
				continue
			}
			kinds++
			t.Run(gv.WithResource(r.Name).String(), func(t *testing.T) {
				var custom []entry.Column
				if gv.Group == "example.com" {
					custom, _ = c.definition(r.Name)
				}
				compareTable(t, d, gv.WithResource(r.Name), custom)
			})
		}
	}
	if kinds < 80 {
		t.Errorf("the server lists %d resources, fewer than with its alpha APIs", kinds)
	}
}

type table struct {
	ColumnDefinitions []metav1.TableColumnDefinition
	Rows              []struct {
		Cells  []any
		Object map[string]any
	}
}

// compareTable compares the server's Table of a resource with larder's columns and cells. It retries, because ages
// differ if a second passes in between.
func compareTable(t *testing.T, d *discovery.DiscoveryClient, r schema.GroupVersionResource, custom []entry.Column) {
	prefix := "/apis"
	if r.Group == "" {
		prefix = "/api"
	}
	mine := columns.For(r.GroupResource(), custom, false)
	if !mine.Known() && r.Resource != "plains" { // a custom resource whose definition has no columns
		t.Error("larder does not know the columns of this resource")
	}
	var diff string
	for range 5 {
		text, err := d.RESTClient().Get().AbsPath(path.Join(prefix, r.Group, r.Version, r.Resource)).
			Param("includeObject", "Object").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
			DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		var theirs table
		if err := json.Unmarshal(text, &theirs); err != nil {
			t.Fatal(err)
		}
		for i := range theirs.ColumnDefinitions {
			theirs.ColumnDefinitions[i].Description = "" // descriptions differ by design, see docs/serve.md
		}
		if diff := cmp.Diff(theirs.ColumnDefinitions, mine.Definitions()); diff != "" {
			t.Fatalf("columns (- kube-apiserver, + larder):\n%s", diff)
		}
		if len(theirs.Rows) == 0 && !slices.Contains(empty, r.Resource) {
			t.Error("there is no object of this resource; add one to testdata")
		}
		if diff = rowsDiffer(t, text, mine, now); diff == "" {
			return
		}
	}
	t.Errorf("cells (- kube-apiserver, + larder):\n%s", diff)
}

func rowsDiffer(t *testing.T, text []byte, mine *columns.Columns, now time.Time) (diff string) {
	t.Helper()
	var whole map[string]any
	if err := utiljson.Unmarshal(text, &whole); err != nil { // decodes JSON integers as int64
		t.Fatal(err)
	}
	rows, _ := whole["rows"].([]any)
	for _, r := range rows {
		row, _ := r.(map[string]any)
		object, _ := row["object"].(map[string]any)
		u := &unstructured.Unstructured{Object: object}
		cells, _ := row["cells"].([]any)
		for i, cell := range cells {
			if cell == "<invalid>" && u.GetKind() == "Event" {
				cells[i] = "0s" // a future time, see docs/kubectl.md
			}
		}
		if d := cmp.Diff(cells, mine.Row(u, now)); d != "" {
			diff += u.GetNamespace() + "/" + u.GetName() + ": " + d
		}
	}
	return diff
}

var empty = []string{}

// createCertificates creates objects that need keys and signatures: a trust bundle and a pod certificate request.
func (c *creator) createCertificates() {
	c.t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, IsCA: true,
		BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		c.t.Fatal(err)
	}
	bundle := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	for name, spec := range map[string]map[string]any{
		"plain":              {"trustBundle": bundle},
		"example.com:ca:one": {"signerName": "example.com/ca", "trustBundle": bundle},
	} {
		c.create(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle",
			"metadata": map[string]any{"name": name}, "spec": spec,
		}})
	}
	key, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		c.t.Fatal(err)
	}
	const uid = "11111111-1111-1111-1111-111111111111"
	c.create(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "certificates.k8s.io/v1beta1", "kind": "PodCertificateRequest",
		"metadata": map[string]any{"name": "request", "namespace": "shop"},
		"spec": map[string]any{
			"signerName": "example.com/pods", "podName": "running", "podUID": uid, "serviceAccountName": "default",
			"serviceAccountUID": uid, "nodeName": "node-1", "nodeUID": uid,
			"pkixPublicKey":             base64.StdEncoding.EncodeToString(key),
			"proofOfPossession":         base64.StdEncoding.EncodeToString(ed25519.Sign(private, []byte(uid))),
			"unverifiedUserAnnotations": map[string]any{"example.com/a": "b"},
		},
	}})
}
