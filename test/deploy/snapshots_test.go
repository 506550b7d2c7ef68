package deploy

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-containerregistry/pkg/registry"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ageIdentity generates an age key. It returns the recipient and the text of the identity file.
func ageIdentity(t *testing.T) (recipient, identityFile string) {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	identityFile = filepath.Join(t.TempDir(), "identity")
	if err := os.WriteFile(identityFile, []byte(identity.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return identity.Recipient().String(), identityFile
}

// listed returns the snapshots in a repository, as larder snapshot list prints them.
func (w *world) listed(t *testing.T, env []string, repository, public, identity string) (all []listedSnapshot) {
	t.Helper()
	out := w.larderOutput(t, env, "snapshot", "list", repository, "-o", "json", "--signed-by", public,
		"--identity", identity)
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return all
}

type listedSnapshot struct {
	Name, Cluster, SignedBy string
	Encrypted               bool
	Collections             []struct {
		Name    string
		Objects int
	}
}

func (l listedSnapshot) objects(resource string) int {
	for _, c := range l.Collections {
		if strings.HasPrefix(c.Name, resource+".") {
			return c.Objects
		}
	}
	return 0
}

// TestCronJob checks that the job's containers save, push and prune snapshots with exactly the chart's rights. The kept
// snapshot must be signed and encrypted, and have the Secrets.
func TestCronJob(t *testing.T) {
	w := newWorld(t)
	w.namespace(t, "cron", "restricted")
	w.definePodMonitors(t)
	w.workload(t)
	public := w.signingKey(t, "cron")
	recipient, identity := ageIdentity(t)
	mark := w.mark(t)
	release := render(t, "cron", `
resources: [{name: pods}, {name: secrets}, {name: deployments.apps}, {name: podmonitors.monitoring.coreos.com}]
snapshots: {enabled: true, keep: [--keep-last=1]}
repository: {signKeySecret: sign, recipients: [`+recipient+`]}`)
	w.apply(t, release.objects...)
	pod := release.pods(t)["snapshots"]
	if access := pod.Spec.AutomountServiceAccountToken; access == nil || *access {
		t.Error("containers that ask no API server have a token for it")
	}
	kept := t.TempDir()
	for range 2 {
		w.sandbox(t, pod, kept, nil).runToEnd(t)
		// Snapshot names have a resolution of one second. If two had the same second, either could count as the newest, and
		// pruning could keep both.
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
	}
	all := w.listed(t, nil, filepath.Join(kept, "repository")+"/", public, identity)
	if len(all) != 1 {
		t.Fatalf("kept are %+v", all)
	}
	system, err := w.client.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if it := all[0]; it.Cluster != string(system.UID) || len(it.Collections) != 4 || it.objects("pods") != 2 ||
		!it.Encrypted || it.SignedBy == "" {
		t.Errorf("it is %+v", it)
	}
	secrets := w.larderOutput(t, nil, "get", "secrets", "-n", "cron", "-o", "name", "--identity", identity, "--from",
		filepath.Join(kept, "repository", all[0].Name))
	if !strings.Contains(secrets, "secret/sign") {
		t.Errorf("Secrets are %s", secrets)
	}
	w.checkRights(t, release, "larder-snapshots", mark)
	w.remove(t, release.objects...)
}

// TestMirrorsWithALease checks two mirrors with one registry: only the holder of the Lease may make snapshots. The
// mirrors store Secrets of one namespace, sealed.
func TestMirrorsWithALease(t *testing.T) {
	w := newWorld(t)
	w.namespace(t, "pair", "restricted")
	w.certificate(t, "pair")
	w.workload(t)
	public := w.signingKey(t, "pair")
	recipient, identity := ageIdentity(t)
	oci, config := ociRegistry(t)
	w.secret(t, "pair", "docker", map[string]string{"config.json": config})
	key := filepath.Join(t.TempDir(), "store.key")
	w.larderOutput(t, nil, "keygen", key)
	w.secret(t, "pair", "larder-key", map[string]string{"key": readFile(t, key)})

	mark := w.mark(t)
	release := render(t, "pair", `
resources: [{name: pods}, {name: secrets, namespaces: [pair]}]
keySecret: larder-key
mirror: {enabled: true, replicas: 2, snapshotTo: "oci://`+oci+`/state", args: [--snapshot-every=1s]}
repository: {signKeySecret: sign, credentialsSecret: docker, recipients: [`+recipient+`]}`)
	w.apply(t, release.objects...)
	var mirrors []*running
	for range 2 {
		mirrors = append(mirrors, w.sandbox(t, release.pods(t)["mirror"], t.TempDir(), nil).run(t))
	}
	for _, m := range mirrors {
		m.ready(t, 2)
	}
	metrics := func(m *running) string {
		_, body := get(t, http.DefaultClient, "http://"+m.ports["health"]+"/metrics", "")
		return body
	}
	made := func(m *running) bool {
		body := metrics(m)
		return strings.Contains(body, "larder_snapshots_kept ") && !strings.Contains(body, "larder_snapshots_kept 0\n")
	}
	eventually(t, "a snapshot", func() string {
		if made(mirrors[0]) || made(mirrors[1]) {
			return ""
		}
		return mirrors[0].text(t) + mirrors[1].text(t)
	})
	lease, err := w.client.CoordinationV1().Leases("pair").Get(t.Context(), "larder-mirror", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		t.Errorf("nobody holds the Lease: %+v, %v", lease, err)
	}
	first, second := mirrors[0], mirrors[1]
	if made(second) {
		first, second = second, first
	}
	if made(second) {
		t.Error("both make snapshots")
	}
	// The mirror authorizes its readers by TokenReview and SubjectAccessReview.
	stranger := w.stranger(t, "pair")
	if code, body := second.ask(t, "larder-mirror.pair.svc", "/api/v1/pods", stranger); code != http.StatusForbidden {
		t.Errorf("a stranger got %d: %s", code, body)
	}
	first.stop(t)
	eventually(t, "the other one makes snapshots", func() string {
		if made(second) {
			return ""
		}
		return second.text(t)
	})
	w.checkLeaseLost(t, second, metrics)
	second.stop(t)

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"DOCKER_CONFIG=" + dir}
	all := w.listed(t, env, "oci://"+oci+"/state", public, identity)
	if len(all) < 2 {
		t.Fatalf("the registry has %+v", all)
	}
	if it := all[0]; !it.Encrypted || it.SignedBy == "" || it.objects("pods") != 2 || it.objects("secrets") != 4 {
		t.Errorf("the latest is %+v", it)
	}
	w.checkRights(t, release, "larder-mirror", mark)
	w.remove(t, release.objects...)
}

func (w *world) checkLeaseLost(t *testing.T, m *running, metrics func(*running) string) {
	t.Helper()
	if body := metrics(m); !strings.Contains(body, "larder_snapshot_interval_seconds 1\n") ||
		strings.Contains(body, "larder_snapshot_last_success_timestamp_seconds 0\n") {
		t.Errorf("while it has the Lease: %s", body)
	}
	patch := fmt.Sprintf(`{"spec": {"holderIdentity": "another", "renewTime": %q}}`,
		time.Now().UTC().Format(metav1.RFC3339Micro))
	if _, err := w.client.CoordinationV1().Leases(m.pod.Namespace).Patch(t.Context(), "larder-mirror",
		types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it knows that it has lost the Lease", func() string {
		body := metrics(m)
		for _, name := range []string{"larder_snapshot_interval_seconds", "larder_snapshot_last_success_timestamp_seconds",
			"larder_snapshot_size_bytes", "larder_snapshots_kept"} {
			if !strings.Contains(body, name+" 0\n") {
				return name + " is not 0:\n" + body + m.text(t)
			}
		}
		return ""
	})
}

// ociRegistry starts a registry with basic authentication. config is a Docker config.json with the password.
func ociRegistry(t *testing.T) (address, config string) {
	t.Helper()
	const user, password = "larder", "pass"
	open := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, ok := r.BasicAuth(); !ok || u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		withinBounds(open, r)
		open.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	address = strings.TrimPrefix(server.URL, "http://")
	return address, fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, address,
		base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
}

// withinBounds shortens a Range header to the blob's size. The test's registry refuses longer ranges, although a
// registry should serve them.
func withinBounds(registry http.Handler, r *http.Request) {
	var first, last, size int64
	if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last); n != 2 {
		return
	}
	head := httptest.NewRecorder()
	registry.ServeHTTP(head, httptest.NewRequest(http.MethodHead, r.URL.Path, nil))
	if _, err := fmt.Sscan(head.Header().Get("Content-Length"), &size); err == nil {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", first, min(last, size-1)))
	}
}
