package docs

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/larder-dev/larder/internal/fakeapi"

	// The programs of docs/adopt.md import these packages, so that go test runs again when they change.
	_ "github.com/larder-dev/larder/informer/factory"
	_ "github.com/larder-dev/larder/metrics"
)

// adoptHead has the imports and variables that the Go blocks of docs/adopt.md use. Each block becomes a function.
const adoptHead = `package adopt

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/informer/factory"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/metrics"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

var (
	st        *store.Store
	cfg       *rest.Config
	clientset kubernetes.Interface
	inf       *informer.Informer
	cancel    context.CancelFunc
	send      func(consumer.Change) error
	client    interface { // a clientset in one block, a dynamic client in another
		kubernetes.Interface
		dynamic.Interface
	}
	_ = durable.Handler{}
)
`

// goBlock matches a block of Go, and declared the variables that a line of it declares.
var (
	goBlock  = regexp.MustCompile("(?s)\n```go\n(.*?)```\n")
	declared = regexp.MustCompile(`(?m)^(\w+(?:, \w+)*) :=`)
)

// TestAdoptPage compiles the Go code of docs/adopt.md: whole programs, and blocks that are parts of a program. The
// first program is run with an API server, and then without a server.
func TestAdoptPage(t *testing.T) {
	page, err := os.ReadFile("adopt.md")
	check(t, err)
	dir := t.TempDir()
	overlay := map[string]string{}
	var programs []string
	parts := adoptHead
	for i, block := range goBlock.FindAllStringSubmatch(string(page), -1) {
		if strings.HasPrefix(block[1], "package main\n") {
			name := fmt.Sprintf("program%d", len(programs))
			programs = append(programs, "./adopt/"+name)
			addSource(t, overlay, dir, name, block[1])
			continue
		}
		parts += fmt.Sprintf("\nfunc block%d() error {\n%s", i, block[1])
		for _, d := range declared.FindAllStringSubmatch(block[1], -1) {
			names := strings.Count(d[1], ",") + 1
			parts += strings.Repeat("_, ", names-1) + "_ = " + d[1] + "\n"
		}
		parts += "return nil\n}\n"
	}
	if len(programs) < 2 || strings.Count(parts, "func block") < 6 {
		t.Fatalf("only %d programs, and these blocks:\n%s", len(programs), parts)
	}
	addSource(t, overlay, dir, "parts", parts)
	replace, err := json.Marshal(map[string]map[string]string{"Replace": overlay})
	check(t, err)
	overlayFile, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "program")
	check(t, os.WriteFile(overlayFile, replace, 0o600))
	build := func(args ...string) {
		t.Helper()
		args = append([]string{"-C", "../informer/controllerruntime", "build", "-overlay", overlayFile}, args...)
		if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	build(append(programs[1:], "./adopt/parts")...)
	build("-o", binary, "-ldflags=-s -w", programs[0])
	runWithAndWithoutServer(t, dir, binary)
}

// addSource adds a package with one file below the directory adopt of the module controllerruntime to the overlay.
func addSource(t *testing.T, overlay map[string]string, dir, name, source string) {
	t.Helper()
	file := filepath.Join(dir, name+".go")
	check(t, os.WriteFile(file, []byte(source), 0o600))
	at, err := filepath.Abs("../informer/controllerruntime/adopt/" + name + "/main.go")
	check(t, err)
	overlay[at] = file
}

// runWithAndWithoutServer checks that the first program prints the selected pod: from the server, then from its file.
func runWithAndWithoutServer(t *testing.T, dir, binary string) {
	server := fakeapi.New(fakeapi.Options{})
	check(t, server.Start())
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	for name, app := range map[string]string{"web-1": "web", "db-1": "db"} {
		pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
		pod.SetNamespace("shop")
		pod.SetName(name)
		pod.SetLabels(map[string]string{"app": app})
		_, err := server.Create(pods, pod)
		check(t, err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["fake"] = &clientcmdapi.Cluster{Server: server.Config().Host}
	config.Contexts["fake"] = &clientcmdapi.Context{Cluster: "fake"}
	config.CurrentContext = "fake"
	kubeconfig := filepath.Join(dir, "kubeconfig")
	check(t, clientcmd.WriteToFile(*config, kubeconfig))
	for _, offline := range []bool{false, true} {
		if offline {
			server.Stop()
		}
		program := exec.CommandContext(t.Context(), binary)
		program.Dir, program.Env = dir, append(os.Environ(), "KUBECONFIG="+kubeconfig)
		program.Cancel = func() error { return program.Process.Signal(os.Interrupt) }
		out, err := program.StdoutPipe()
		check(t, err)
		var errs strings.Builder
		program.Stderr = &errs
		check(t, program.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || line != "shop web-1\n" {
			t.Errorf("offline %t: it prints %q, %v", offline, line, err)
		}
		check(t, program.Process.Signal(os.Interrupt))
		if err := program.Wait(); err != nil {
			t.Errorf("offline %t: %v\n%s", offline, err, errs.String())
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
