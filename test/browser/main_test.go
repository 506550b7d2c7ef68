package browser

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/larder-dev/larder/test/browser/chromium"
	"github.com/larder-dev/larder/test/e2e/controlplane"
	"github.com/larder-dev/larder/test/e2e/playground"
	"github.com/larder-dev/larder/test/e2e/served"
)

var (
	browserCtx context.Context
	site       *served.Site
	client     kubernetes.Interface
	mirror     *served.Mirror
	token      string
	larder     string
)

// workers is the number of ConfigMaps in the namespace fleet, enough for several pages of a list.
const workers = 5000

func TestMain(m *testing.M) {
	served.Run("browser", controlplane.Options{}, func(s *served.Site) (int, error) {
		site = s
		return runAll(m)
	})
}

func runAll(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	program, err := chromium.Get(ctx)
	if err != nil {
		return 1, err
	}
	if larder, err = site.Larder(); err != nil {
		return 1, err
	}
	config := site.Server.Config(controlplane.Writer)
	if _, err := playground.Fill(ctx, config); err != nil {
		return 1, err
	}
	if client, err = unlimited(config); err != nil {
		return 1, err
	}
	if err := fillFleet(ctx); err != nil {
		return 1, err
	}
	mirror, err = site.Mirror(ctx, "mirror", []string{"pods", "deployments.apps", "services", "configmaps", "events", "namespaces",
		"jobs.batch"})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, mirror.Stop()) }()
	if err := mirror.Synced(ctx); err != nil {
		return 1, err
	}
	mirrored, err := mirror.Config("")
	if err != nil {
		return 1, err
	}
	token = mirrored.BearerToken
	o := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.IgnoreCertErrors, // larder signs its certificate with its own authority
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"),
		chromedp.Flag("lang", "en-US"), chromedp.Flag("font-render-hinting", "none"))
	allocator, stop := chromedp.NewExecAllocator(ctx, o...)
	defer stop()
	var end context.CancelFunc
	browserCtx, end = chromedp.NewContext(allocator)
	defer end()
	if err := chromedp.Do(browserCtx); err != nil {
		return 1, fmt.Errorf("starting %s: %w", program, err)
	}
	return m.Run(), nil
}

func unlimited(config *rest.Config) (kubernetes.Interface, error) {
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}

func fillFleet(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make(chan error, 16)
	for w := range 16 {
		wg.Go(func() {
			for i := w; i < workers; i += 16 {
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: worker(i), Labels: map[string]string{"rack": fmt.Sprint(i % 50)}},
					Data: map[string]string{"image": "registry.example/worker:1.4.2", "level": "info", "slots": fmt.Sprint(i % 8)}}
				if _, err := client.CoreV1().ConfigMaps("fleet").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return errors.Join(<-errs)
}

func worker(i int) string { return fmt.Sprintf("worker-%04d", i) }

func mirrorPage() string { return "https://" + mirror.Address() + "/#token=" + token }

// serve runs larder serve until the test ends, and returns the URL of the page, including the token.
func serve(t *testing.T, args ...string) string {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig") // larder writes its token to this file only
	cmd := exec.Command(larder, append([]string{"serve", "--serve-kubeconfig", kubeconfig}, args...)...)
	cmd.Dir = t.TempDir()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("larder serve: %v", err)
		}
	})
	lines := bufio.NewScanner(stderr)
	var printed []string
	for lines.Scan() {
		printed = append(printed, lines.Text())
		if address, ok := strings.CutPrefix(lines.Text(), "page: "); ok {
			go func() { _, _ = io.Copy(io.Discard, stderr) }() // ends with the process
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(address, config.BearerToken) {
				t.Errorf("the line %q has the token, and goes to no terminal", lines.Text())
			}
			address, _, _ = strings.Cut(address, ",")
			return address + "#token=" + config.BearerToken
		}
	}
	t.Fatalf("larder serve ends: %s", printed)
	return ""
}

func saveIn(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if out, err := exec.Command(larder, "snapshot", "save", path, "--from", mirror.Store).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}
