package e2e

import (
	"encoding/base64"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/meter"
	"github.com/larder-dev/larder/reflector"
)

// largeConfigMap returns a ConfigMap of 100 kB that compresses badly.
func largeConfigMap(random *rand.Rand, name string) *corev1.ConfigMap {
	body := make([]byte, 75_000)
	for i := range body {
		body[i] = byte(random.UintN(256))
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name},
		Data: map[string]string{"body": base64.StdEncoding.EncodeToString(body)}}
}

// TestRelistByMetadata checks a relist after the server has lost its watch history. Of 40 ConfigMaps of 100 kB two have
// changed, one was deleted and one is new. The relist must fetch only the changed and the new ConfigMaps (issue 5).
func TestRelistByMetadata(t *testing.T) {
	c := newCluster(t, shared)
	random := newRandom(t)
	configMaps := c.client.CoreV1().ConfigMaps(c.ns)
	for _, name := range names("cm", 0, 40) {
		if _, err := configMaps.Create(t.Context(), largeConfigMap(random, name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var received meter.Received
	cfg := received.Count(c.Config(t.Name()))
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	src := typedSource(t, cfg, "configmaps", c.ns, "", &corev1.ConfigMap{})
	byMetadata := func(o *informer.Options) {
		o.ListMetadata = requests.ListMetadata(client.CoreV1().RESTClient(), src.identity)
		o.OpenAPIHash = requests.OpenAPIHash(client.CoreV1().RESTClient(), corev1.SchemeGroupVersion)
	}
	f := newFile(t)
	_, before := f.run(t, src, byMetadata)
	cold := received.Bytes()

	for _, name := range []string{"cm-00003", "cm-00039"} {
		if _, err := configMaps.Update(t.Context(), largeConfigMap(random, name), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := configMaps.Create(t.Context(), largeConfigMap(random, "cm-00010a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := configMaps.Delete(t.Context(), "cm-00020", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Compact(t.Context()); err != nil { // the shared server has no watch cache for ConfigMaps
		t.Fatal(err)
	}
	list, err := configMaps.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := objects{}
	for i := range list.Items {
		want.put(t, &list.Items[i])
	}
	s := f.start(t, src, byMetadata)
	s.sync(t)
	relist := received.Bytes() - cold
	s.converge(t, want)
	checkTombstones(t, s.expect(t, before.objects, want))
	st := s.Status().Reflector
	if st.Relists[reflector.ReasonExpired] != 1 || st.Fetches != 3 {
		t.Errorf("relists %v, %d objects fetched one by one; want one for 410, and 3", st.Relists, st.Fetches)
	}
	t.Logf("received: %d kB by the first list, %d kB by the relist", cold/1000, relist/1000)
	if relist > cold/5 {
		t.Errorf("the relist received %d bytes, and the first list %d", relist, cold)
	}
	s.stop(t)
	f.close(t)
	if problem := want.diff(f.read(t, src.identity, src.example).objects); problem != "" {
		t.Error("on disk:", problem)
	}
}
