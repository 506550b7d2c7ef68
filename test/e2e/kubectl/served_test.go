package kubectl

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/larder-dev/larder/test/e2e/controlplane"
)

// commands are the kubectl commands that must print the same for the API server and for larder's API.
var commands = []string{
	"get pods -A",
	"get pods -A -o wide",
	"get pods -A -o name",
	"get pods -A --chunk-size=2",
	"get pods -A --chunk-size=0 --no-headers",
	"get configmaps -A --chunk-size=1 -o name",
	"get pods -n shop -o yaml",
	"get pods -n shop -o json",
	"get pods -n shop -o json --chunk-size=2",
	"get pod running -n shop -o yaml --show-managed-fields",
	"get pods -n shop -o jsonpath={.items[*].metadata.name}",
	"get pods -n shop -o go-template={{range.items}}{{.metadata.uid}}{{end}}",
	"get pods -n shop -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName,IMAGES:.spec.containers[*].image",
	"get pods -n shop -l app=web --show-labels",
	"get pods -n shop -l app!=web,app -L app",
	"get pods -A --field-selector spec.nodeName=node-1",
	"get pods -A --field-selector status.phase!=Running,metadata.namespace=shop",
	"get pods -A --sort-by .metadata.uid",
	"get pods -n shop --sort-by .metadata.name -o name",
	"get services -A --sort-by {.metadata.creationTimestamp} -o name",
	"get pv --sort-by .spec.capacity.storage",
	"get po,svc,no -n shop -o wide",
	"get pod/running svc/cluster deploy/web -n shop",
	"get pod/running pod/nobody -n shop",
	"get pods -n nowhere",
	"get pod nobody -n shop",
	"get pod nobody -n shop --ignore-not-found",
	"get nonsenses",
	"get pods -n shop -o html",
	"get all -n shop",
	"get all -A -o name",
	"get gear -n shop -o wide",
	"get gadgets -n shop -o wide --show-labels",
	"get gd/full -n shop -o yaml",
	"get gadgets.v1.example.com full -n shop -o jsonpath={.spec.parts[0].of[1]}",
	"get plains -o yaml",
	"get secrets,cm,sa -n shop -o yaml",
	"get deploy,rs,sts,ds,job,cj -n shop -o wide",
	"get crd -o name",
	"get crd gadgets.example.com -o yaml",
	"get endpointslices,ingress,netpol,hpa,pdb,pvc -n shop",
	"get sc,pc,csidrivers,runtimeclasses,ingressclasses,clusterroles -o wide",
	"get roles,rolebindings,leases,quota,limits -n shop -o wide",
	"get --raw /api/v1/namespaces/shop/pods/running",
	"events -n shop",
	"events -A --types=Warning --no-headers",
	"api-resources --verbs=list,watch",
	"api-resources --verbs=list,watch -o name --namespaced=false",
	"api-resources --verbs=list,watch --api-group=example.com",
	"api-resources --categories=gear --no-headers",
	"api-versions",
	"version",
	"version -o yaml",
	"explain pods",
	"explain pod.spec.containers.resources.claims",
	"explain deploy --recursive",
	"explain cronjobs.spec --api-version=batch/v1",
	"explain gadgets",
	"explain gadgets --recursive",
	"explain nonsense",
	"explain pod.nonsense",
	"auth can-i list pods",
	"auth can-i watch gadgets.example.com -n shop",
	"auth can-i get secrets -n shop -q",
	"wait --for=condition=Ready pod/running -n shop --timeout=5s",
	"wait --for=jsonpath={.status.phase}=Running pods -l app=web -n shop --timeout=5s",
	"wait --for=condition=Ready pod/pending -n shop --timeout=1s",
	"wait --for=delete pod/nobody -n shop --timeout=5s",
	"wait --for=create gadget/full -n shop --timeout=5s",
	"rollout status deployment/web -n shop --watch=false",
	"rollout status deployment/web -n shop --timeout=1s",
	"rollout history deployment/web -n shop",
	"describe pod nobody -n shop",
	"describe pods -n shop -l app=web",
	"describe pods,gadgets -n shop --show-events=false",
	"describe services,endpointslices,ingresses,networkpolicies -n shop",
	"describe deployments,replicasets,statefulsets,daemonsets,replicationcontrollers,jobs,cronjobs -n shop",
	"describe nodes,namespaces,customresourcedefinitions",
	"describe configmaps,secrets,serviceaccounts,roles,rolebindings,certificatesigningrequests -n shop",
	"describe resourcequotas,limitranges,horizontalpodautoscalers,poddisruptionbudgets,priorityclasses,leases -n shop",
	"describe persistentvolumes,persistentvolumeclaims,storageclasses -n shop",
}

// offlineCommands are the kubectl commands that must also work on a served store and on a served snapshot.
var offlineCommands = []string{
	"get pods -A -o wide", "get pods -A --chunk-size=2", "get pods -n shop -o yaml",
	"get pods -n shop -l app=web --show-labels", "get pods -A --field-selector spec.nodeName=node-1",
	"get pod nobody -n shop", "get all -n shop", "get gadgets -n shop -o wide --show-labels",
	"get crd gadgets.example.com -o yaml", "get secrets,cm,sa -n shop -o yaml", "api-resources --verbs=list,watch",
	"api-versions", "version", "explain gadgets --recursive", "explain deploy --recursive", "auth can-i list pods",
	"wait --for=condition=Ready pod/running -n shop --timeout=5s",
	"rollout status deployment/web -n shop --watch=false", "describe pods -n shop -l app=web",
	"describe nodes,namespaces,customresourcedefinitions",
}

// notMirrored is an API version that larder does not serve, because its group prefers another version.
const notMirrored = "autoscaling/v1"

type target struct{ kubeconfig, cacheDir string }

func newTarget(t *testing.T, kubeconfig string) target {
	t.Helper()
	return target{kubeconfig: kubeconfig, cacheDir: t.TempDir()}
}

type printed struct {
	Out, Err []string
	Code     int
}

func (to target) run(t *testing.T, args string) printed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, kubectl, append(strings.Fields(args), "--kubeconfig", to.kubeconfig, "--cache-dir",
		to.cacheDir)...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("kubectl %s: %v, %v\n%s", args, err, ctx.Err(), stderr.String())
	}
	p := printed{Out: strings.Split(out.String(), "\n"), Code: cmd.ProcessState.ExitCode()}
	for _, line := range strings.Split(stderr.String(), "\n") {
		if !strings.HasPrefix(line, "Warning: larder: the API server was last heard of at") {
			p.Err = append(p.Err, line)
		}
	}
	return p
}

func (to target) reference(t *testing.T, args string) printed {
	t.Helper()
	p := to.run(t, args)
	if args == "api-versions" {
		p.Out = slices.DeleteFunc(p.Out, func(line string) bool { return line == notMirrored })
	}
	return p
}

// compareTargets runs kubectl on the API server and on larder. It repeats the runs if the outputs differ, because ages
// change with every second. It returns the API server's output.
func compareTargets(t *testing.T, upstream, mine target, args string) (want printed, diff string) {
	t.Helper()
	for range 4 {
		began := time.Now()
		want = upstream.reference(t, args)
		got := mine.run(t, args)
		if diff = cmp.Diff(want, got); diff == "" {
			return want, ""
		}
		took := time.Since(began)
		got.Out = aged(want.Out, got.Out, took)
		if took > time.Second/4 && cmp.Equal(want, got) {
			return want, ""
		}
	}
	return want, diff
}

// aged returns want if the outputs differ only in ages that grew within the given time, and got otherwise.
func aged(want, got []string, within time.Duration) []string {
	if slices.EqualFunc(want, got, func(w, g string) bool { return older(w, g, within) }) {
		return want
	}
	return got
}

// createWorld creates the objects whose output is compared, once for all tests.
func createWorld(t *testing.T) {
	t.Helper()
	createOnce.Do(func() {
		c := newCreator(t)
		c.createAll("objects.yaml")
		c.createSigningRequests()
		c.createOdd()
	})
}

var createOnce sync.Once

// TestServed checks that kubectl prints the same for the API server and for a mirror by larder sync --serve. Offline,
// it must print the same for the store and for a snapshot of the store.
func TestServed(t *testing.T) {
	createWorld(t)
	upstream := newTarget(t, kubeconfig)
	all := upstream.run(t, "api-resources --verbs=list,watch -o name").Out
	all = slices.DeleteFunc(all, func(r string) bool { return r == "" || r == "events" })
	m, err := site.Mirror(t.Context(), "served", append(all, "events.v1."), "--persist-secrets", "--serve-secrets")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if err := m.Synced(t.Context()); err != nil {
		t.Fatal(err)
	}
	mine := newTarget(t, m.Kubeconfig)
	eventually(t, "the mirror has learned columns, schemas and the version", func() (diff string) {
		for _, args := range []string{"get gadgets -n shop -o wide", "explain gadgets", "explain deploy", "version"} {
			diff += cmp.Diff(upstream.run(t, args), mine.run(t, args))
		}
		return diff
	})
	t.Run("watch", func(t *testing.T) { compareWatches(t, upstream, mine) })
	answers := sync.Map{}
	began := time.Now()
	t.Run("sync", func(t *testing.T) {
		for _, args := range commands {
			t.Run(args, func(t *testing.T) {
				t.Parallel()
				want, diff := compareTargets(t, upstream, mine, args)
				if diff != "" {
					t.Errorf("kubectl %s (- API server, + larder sync --serve):\n%s", args, diff)
				}
				answers.Store(args, want)
			})
		}
	})
	snapshot := filepath.Join(t.TempDir(), "snapshot.larder")
	output(t, larder, "snapshot", "save", snapshot, "--from", m.Store, "--include-secrets")
	if err := m.Stop(); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"store": m.Store, "snapshot": snapshot} {
		t.Run(name, func(t *testing.T) {
			mine := serveFile(t, path)
			for _, args := range offlineCommands {
				t.Run(args, func(t *testing.T) {
					t.Parallel()
					kept, ok := answers.Load(args)
					if !ok {
						t.Fatal("the API server has not been asked that")
					}
					want, got := kept.(printed), mine.run(t, args)
					got.Out = aged(want.Out, got.Out, time.Since(began))
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("kubectl %s (- API server, + larder serve):\n%s", args, diff)
					}
				})
			}
		})
	}
}

func serveFile(t *testing.T, path string) target {
	t.Helper()
	config := filepath.Join(t.TempDir(), "kubeconfig")
	log := filepath.Join(site.Dir, "serve.log")
	p, err := controlplane.StartProcess("larder serve", log, nil, larder, "serve", "--from", path, "--serve",
		"127.0.0.1:0", "--serve-kubeconfig", config, "--serve-secrets")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Terminate(); err != nil {
			t.Error(err)
		}
	})
	to := newTarget(t, config)
	eventually(t, "larder serve answers", func() string {
		if err := p.Exited(); err != nil {
			t.Fatal(err)
		}
		return strings.Join(to.run(t, "get --raw /version").Err, "\n")
	})
	return to
}

func eventually(t *testing.T, what string, check func() string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		problem := check()
		if problem == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %s", what, problem)
		}
	}
}
