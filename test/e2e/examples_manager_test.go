package e2e

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// These texts identify parts of the manager's Secrets: the data, the annotation of kubectl apply that repeats the data,
// and an annotation that the store keeps.
const (
	secretData        = "planted-data-51c2"
	secretLastApplied = "planted-last-applied-9d0e"
	secretNote        = "planted-note-e47b"
)

// managerExample tests the controller-runtime manager of examples/ with the same changes in three namespaces. The
// manager watches two of them.
func managerExample(t *testing.T, e *example) {
	e.namespaces = []string{e.ns, e.newNamespace(t)}
	third := e.newNamespace(t)
	e.args = []string{"--namespaces", strings.Join(e.namespaces, ",")}
	e.watched = []schema.GroupVersionResource{deployments, secrets, configMaps}
	e.reconcilers = map[string]schema.GroupVersionResource{"restarter": deployments, "users": secrets}
	all := append(slices.Clone(e.namespaces), third)
	for _, ns := range all {
		for _, name := range []string{"stays", "changes", "goes"} {
			e.createMarkedSecret(t, ns, name)
		}
		e.createDeployment(t, ns, "one", "stays")
		e.createDeployment(t, ns, "two", "stays", "changes")
		e.createDeployment(t, ns, "three", "goes")
		e.createDeployment(t, ns, "doomed", "stays", "changes")
		e.createDeployment(t, ns, "none")
	}
	e.unfinished = func() string {
		for _, ns := range e.namespaces {
			if problem := e.managed(t, ns); problem != "" {
				return "namespace " + ns + ": " + problem
			}
		}
		return ""
	}
	e.meanwhile = func() {
		for _, ns := range all {
			e.createMarkedSecret(t, ns, "comes")
			e.createDeployment(t, ns, "new", "comes", "changes")
			e.patch(t, secrets, ns, "changes", `{"stringData":{"more":"`+secretData+`"}}`)
			e.patch(t, deployments, ns, "one",
				`{"spec":{"template":{"spec":{"volumes":[{"name":"v","secret":{"secretName":"comes"}}]}}}}`)
			e.delete(t, secrets, ns, "goes")
			e.delete(t, deployments, ns, "doomed")
		}
		for _, ns := range e.namespaces {
			e.patch(t, configMaps, ns, "stays-users", `{"data":{"deployments":"nobody"}}`)
			e.delete(t, configMaps, ns, "changes-users")
		}
		e.createConfigMap(t, "a-stranger")
	}
	e.afterwards = func() { e.onlyMetadata(t, third) }
}

func (c *cluster) managed(t *testing.T, ns string) string {
	t.Helper()
	versions, users := map[string]string{}, map[string][]string{}
	list, err := c.client.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for _, secret := range list.Items {
		versions[secret.Name] = secret.ResourceVersion
	}
	found, err := c.client.AppsV1().Deployments(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for _, deployment := range found.Items {
		var want []string
		for _, volume := range deployment.Spec.Template.Spec.Volumes {
			name := volume.Secret.SecretName
			users[name] = append(users[name], deployment.Name)
			if rv := versions[name]; rv != "" {
				want = append(want, name+"="+rv)
			}
		}
		if got := deployment.Spec.Template.Annotations["example.larder.dev/secrets"]; got != strings.Join(want, " ") {
			return fmt.Sprintf("Deployment %s has the stamp %q, want %q", deployment.Name, got, want)
		}
	}
	for name := range versions {
		slices.Sort(users[name])
		got, there := c.configMap(t, ns, name+"-users")["deployments"]
		if want := strings.Join(users[name], " "); !there || got != want {
			return fmt.Sprintf("the users of %s are %q, want %q", name, got, want)
		}
	}
	return ""
}

func (c *cluster) createMarkedSecret(t *testing.T, ns, name string) {
	t.Helper()
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			corev1.LastAppliedConfigAnnotation: secretLastApplied, "note": secretNote,
		}},
		StringData: map[string]string{"k": secretData},
	}
	if _, err := c.client.CoreV1().Secrets(ns).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// onlyMetadata checks that the file has the Secrets' metadata, but none of their content and nothing of the namespace
// third.
func (e *example) onlyMetadata(t *testing.T, third string) {
	t.Helper()
	f := e.file()
	if f.bytesOnDisk(t, secretNote) == 0 {
		t.Error("the Secrets' annotations were to be persisted and are not in the file: the search finds nothing")
	}
	for _, text := range []string{secretData, base64.StdEncoding.EncodeToString([]byte(secretData)), secretLastApplied,
		third} {
		if n := f.bytesOnDisk(t, text); n > 0 {
			t.Errorf("%q is in the file %d times", text, n)
		}
	}
	if got := e.configMap(t, third, "stays-users"); got != nil {
		t.Errorf("the manager has worked in the third namespace: %v", got)
	}
}
