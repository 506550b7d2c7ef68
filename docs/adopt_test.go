package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	// A change of these is one of what is tested.
	_ "github.com/larder-dev/larder/informer/factory"
	_ "github.com/larder-dev/larder/metrics"
)

// adoptHead is what the Go blocks of docs/adopt.md take for granted, each in a function of its own.
const adoptHead = `package adopt

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/controllerruntime"
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

// goBlock is a block of Go, and declared is what a line of it declares.
var (
	goBlock  = regexp.MustCompile("(?s)\n```go\n(.*?)```\n")
	declared = regexp.MustCompile(`(?m)^(\w+(?:, \w+)*) :=`)
)

// TestAdoptPage compiles the Go code of docs/adopt.md.
func TestAdoptPage(t *testing.T) {
	page, err := os.ReadFile("adopt.md")
	check(t, err)
	blocks := goBlock.FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 8 {
		t.Fatalf("only %d blocks", len(blocks))
	}
	source := adoptHead
	for i, block := range blocks {
		source += fmt.Sprintf("\nfunc block%d() {\n%s", i, block[1])
		for _, d := range declared.FindAllStringSubmatch(block[1], -1) {
			names := strings.Count(d[1], ",") + 1
			source += strings.Repeat("_, ", names-1) + "_ = " + d[1] + "\n"
		}
		source += "}\n"
	}
	dir := t.TempDir()
	file, overlay := filepath.Join(dir, "adopt.go"), filepath.Join(dir, "overlay.json")
	check(t, os.WriteFile(file, []byte(source), 0o600))
	here, err := filepath.Abs("../informer/controllerruntime/adopt/adopt.go")
	check(t, err)
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {here: file}})
	check(t, err)
	check(t, os.WriteFile(overlay, replace, 0o600))
	args := []string{"-C", "../informer/controllerruntime", "build", "-overlay", overlay, "./adopt"}
	out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
