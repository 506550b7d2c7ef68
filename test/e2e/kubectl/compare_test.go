package kubectl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

var resources = strings.Fields(`
	pods services deployments replicasets statefulsets daemonsets replicationcontrollers controllerrevisions jobs cronjobs
	nodes namespaces configmaps secrets serviceaccounts podtemplates resourcequotas limitranges
	events.v1. events.events.k8s.io
	persistentvolumes persistentvolumeclaims storageclasses volumeattachments csidrivers csinodes
	endpoints endpointslices ingresses ingressclasses networkpolicies
	horizontalpodautoscalers poddisruptionbudgets priorityclasses runtimeclasses leases
	roles rolebindings clusterroles clusterrolebindings certificatesigningrequests
	validatingwebhookconfigurations mutatingwebhookconfigurations
	validatingadmissionpolicies validatingadmissionpolicybindings
	mutatingadmissionpolicies mutatingadmissionpolicybindings
	flowschemas prioritylevelconfigurations ipaddresses servicecidrs resourceclaims resourceslices volumeattributesclasses
	apiservices customresourcedefinitions gadgets plains`)

// alone are the resources that are also compared separately. With LARDER_SOAK=1 these are all resources.
var alone = strings.Fields(
	`pods services deployments nodes secrets events.v1. persistentvolumes apiservices customresourcedefinitions gadgets`)

// questions are the further arguments of kubectl get and larder get whose output must be equal.
var questions = []string{
	"pods -A",
	"pods -A -o wide",
	"po -n shop",
	"pod running -n shop",
	"pod/running -n shop -o wide",
	"pods running crashing -n shop",
	"pods -n shop -l app=web",
	"pods -n shop -l app!=web --no-headers",
	"pods -n shop --field-selector status.phase=Failed",
	"pods -A --field-selector spec.hostNetwork=false",
	"pods -A --field-selector spec.hostNetwork!=false",
	"jobs -A --field-selector status.successful=0",
	"jobs -A --field-selector status.successful!=0",
	"nodes --field-selector spec.unschedulable=false",
	"pods -n shop --show-labels",
	"pods -A -L app,example.com/tier --show-labels",
	"pods -n shop --show-kind",
	"pods -n nowhere",
	"pods running -n shop -o json",
	"pods -n nowhere -o yaml",
	"pods -n nowhere -o json --ignore-not-found",
	"pod nobody -n shop --ignore-not-found",
	"pods -n shop -o json",
	"pods -n shop -o yaml",
	"pods -n shop -o kyaml",
	"pod running -n shop -o yaml --show-managed-fields",
	"pods -A -o name",
	"pods -n shop -o jsonpath={.items[*].metadata.name}",
	"pod running -n shop -o jsonpath={.status.podIP}",
	`pods -n shop -o jsonpath={range.items[*]}{.metadata.name}{"\t"}{.spec.nodeName}{"\n"}{end}`,
	"pods -n shop -o jsonpath-as-json={.items[*].metadata.labels}",
	"pods -n shop -o go-template={{range.items}}{{.metadata.name}},{{end}}",
	"pods -n shop --template={{len(.items)}}",
	"pods -n shop -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName,IMAGES:.spec.containers[*].image,NONE:.no",
	"pods -n shop -o custom-columns=NAME:metadata.name,PHASE:{.status.phase} --no-headers",
	"pods -n nowhere -o custom-columns=NAME:metadata.name",
	"pods -n shop --sort-by .metadata.name",
	"pods -n shop --sort-by={.spec.containers[0].image} -l app=web",
	"pods -n shop -o name --sort-by=metadata.uid",
	"pods -A --sort-by .metadata.uid -o wide",
	"pv --sort-by .spec.capacity.storage",
	"services -n shop --sort-by .spec.ports[0].nodePort -l!none --field-selector " +
		"metadata.name!=headless,metadata.name!=elsewhere,metadata.name!=cluster,metadata.name!=given",
	"events.v1. -n shop --sort-by .metadata.name -o wide",
	"pods,services -n shop",
	"svc,no -n shop -o wide --show-labels",
	"pod/running svc/cluster deploy/web -n shop",
	"pod/running pod/crashing svc/cluster pod/pending -n shop",
	"pods,svc -n shop -o name",
	"pods,svc -n shop -o yaml",
	"all -n shop",
	"all -n shop -o name",
	"all -A",
	"gear -n shop",
	"gd -n shop -o wide -L app",
	"gadgets.v1.example.com -n shop",
	"gadget/full -n shop -o yaml",
	"cm settings -n shop -o yaml",
	"secrets -n shop -o json",
	"all,cm -n nowhere",
	"no,po -A",
	"pods nobody -n shop",
	"pod/running pod/nobody -n shop",
	"nonsenses -n shop",
	"pods -n shop -o html",
}

func TestAsKubectl(t *testing.T) {
	createWorld(t)
	path := mirror(t)
	differ := differences(t)

	type question struct{ name, args string }
	var all []question
	if os.Getenv("LARDER_SOAK") != "" {
		alone = resources
	}
	for _, r := range alone {
		for _, format := range []string{"", " -o wide"} {
			all = append(all, question{r + format, r + " -n shop" + format})
		}
	}
	for _, format := range []string{"", " -o wide", " -o name", " -o yaml", " -o json", " --no-headers --show-labels"} {
		all = append(all, question{"everything" + format, strings.Join(lasting(), ",") + " -n shop" + format})
	}
	for _, q := range questions {
		all = append(all, question{q, q})
	}
	t.Run("faithful", func(t *testing.T) {
		t.Parallel()
		testFaithful(t, path)
	})
	for _, q := range all {
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			if slices.Contains(differ, q.args) {
				t.Fatalf("docs/kubectl.md says that %q differs; it is to be asked there only", q.args)
			}
			if diff := compare(t, path, strings.Fields(q.args)); diff != "" {
				t.Errorf("larder get %s (- kubectl, + larder):\n%s", q.args, diff)
			}
		})
	}
	for _, args := range differ {
		t.Run("differs: "+args, func(t *testing.T) {
			t.Parallel()
			if diff := compare(t, path, fields(args)); diff == "" {
				t.Errorf("docs/kubectl.md says that larder get %s differs from kubectl; it does not", args)
			} else {
				t.Log(diff)
			}
		})
	}
}

// lasting returns the resources whose objects the API server does not change by itself.
func lasting() []string {
	return slices.DeleteFunc(slices.Clone(resources), func(r string) bool {
		return r == "apiservices" || r == "customresourcedefinitions"
	})
}

// fields splits a command line. Single quotes enclose arguments with spaces.
func fields(args string) []string {
	var all []string
	for _, f := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(args, -1) {
		all = append(all, strings.Trim(f, "'"))
	}
	return all
}

// compare runs kubectl and larder and returns the difference in output. It repeats the runs if there is a difference,
// because ages change when a second passes in between. If every run differs on a busy machine, ages may differ by the
// duration of the runs.
func compare(t *testing.T, path string, args []string) (diff string) {
	t.Helper()
	for range 4 {
		began := time.Now()
		want := run(t, exec.Command(kubectl, append([]string{"get", "--kubeconfig", kubeconfig, "--cache-dir", cacheDir},
			args...)...))
		got := run(t, exec.Command(larder, append([]string{"get", "--from", path}, args...)...))
		took := time.Since(began)
		if got.Error != "" && want.Error != "" { // error messages differ by design
			got.Error, want.Error = "", ""
		}
		if diff = cmp.Diff(want, got); diff == "" {
			return ""
		}
		// Ages may differ only if each of four attempts differed. The faster kubectl and larder run, the less likely is a new
		// second between them each time.
		if took > time.Second/4 && slices.EqualFunc(want.Out, got.Out, func(w, g string) bool { return older(w, g, took) }) {
			got.Out = want.Out
			return cmp.Diff(want, got)
		}
	}
	return diff
}

func older(want, got string, within time.Duration) bool {
	return slices.EqualFunc(strings.Fields(want), strings.Fields(got), func(w, g string) bool {
		before, errBefore := time.ParseDuration(strings.TrimSuffix(w, ")")) // as in "Terminating (lasts 40s)"
		after, errAfter := time.ParseDuration(strings.TrimSuffix(g, ")"))
		return w == g || errBefore == nil && errAfter == nil && before < after && after-before <= within+time.Second
	})
}

// answer is the output of kubectl or larder. Of standard error it has only the lines that kubectl prints too, because
// larder also prints the age of the data.
type answer struct {
	Out     []string
	Nothing string
	Error   string
}

func run(t *testing.T, cmd *exec.Cmd) answer {
	t.Helper()
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	a := answer{Out: strings.Split(out.String(), "\n")}
	for _, line := range strings.Split(stderr.String(), "\n") {
		if strings.HasPrefix(line, "No resources found") {
			a.Nothing = line
		}
	}
	if err != nil {
		a.Error = stderr.String()
	}
	return a
}

func mirror(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster.db")
	sync := exec.Command(larder, append(append([]string{"sync"}, resources...), "--persist-secrets", "--kubeconfig",
		kubeconfig, "--store", path)...)
	var log bytes.Buffer
	sync.Stdout, sync.Stderr = &log, &log
	if err := sync.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- sync.Wait() }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for complete := false; !complete; {
		select {
		case err := <-done:
			t.Fatalf("larder sync: %v\n%s", err, log.String())
		case <-ctx.Done():
			_ = sync.Process.Kill()
			t.Fatalf("larder sync has not synced in %s: %v\n%s", patience, <-done, log.String())
		case <-time.After(100 * time.Millisecond):
			complete = synced(path)
		}
	}
	if err := sync.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatalf("larder sync: %v\n%s", err, log.String())
	}
	addColumns(t, path)
	return path
}

func synced(path string) bool {
	out, err := exec.Command(larder, "status", "--from", path, "-o", "json").Output()
	var status struct {
		Collections []struct{ Live struct{ Synced bool } }
	}
	if err != nil || json.Unmarshal(out, &status) != nil {
		return false
	}
	n := 0
	for _, c := range status.Collections {
		if c.Live.Synced {
			n++
		}
	}
	return n == len(resources)
}

// addColumns adds the custom resources' columns and categories to the store, if they are missing.
func addColumns(t *testing.T, path string) {
	t.Helper()
	st, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	infos, err := st.Collections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		if info.Identity.Group != "example.com" || info.Resource.Columns != nil {
			continue
		}
		info.Resource.Columns, info.Resource.Categories = newCreator(t).definition(info.Identity.Resource)
		codec, err := codec.View(info.Identity.Representation, nil)
		if err != nil {
			t.Fatal(err)
		}
		collection, err := st.Collection(t.Context(), info.Identity,
			store.CollectionOptions{Codec: codec, Resource: info.Resource})
		if err != nil {
			t.Fatal(err)
		}
		if err := collection.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func (c *creator) definition(resource string) (columns []entry.Column, categories []string) {
	t := c.t
	t.Helper()
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
	u, err := c.client.Resource(crds).Get(t.Context(), resource+".example.com", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Names    struct{ Categories []string }
			Versions []struct{ AdditionalPrinterColumns []entry.Column }
		}
	}
	data, err := json.Marshal(u.Object)
	if err == nil {
		err = json.Unmarshal(data, &crd)
	}
	if err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Versions[0].AdditionalPrinterColumns, crd.Spec.Names.Categories
}

// differences returns the command arguments in the table of docs/kubectl.md, whose output differs by design.
func differences(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "kubectl.md"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range regexp.MustCompile("(?m)^\\| `get ([^`]*)` \\|").FindAllStringSubmatch(string(data), -1) {
		all = append(all, m[1])
	}
	if len(all) == 0 {
		t.Fatal(fmt.Errorf("docs/kubectl.md lists no differences"))
	}
	return all
}
