package e2e

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/internal/testresidency"
	"github.com/larder-dev/larder/test/e2e/controlplane"
)

var soak = os.Getenv("LARDER_SOAK") != ""

// writer is the client that changes test objects. The audit log omits its requests.
const writer = controlplane.Writer

// shared is the control plane that most tests share. Tests may restart its API server; the data last until the end.
var shared *controlplane.ControlPlane

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(childMain())
	}
	if os.Getenv(jobEnv) != "" {
		os.Exit(jobMain())
	}
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	if _, err := testresidency.FromEnv(); err != nil { // fails before the servers are started
		return 1, err
	}
	if err := noticeDeadConnectionsSoon(); err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "larder-e2e-")
	if err != nil {
		return 1, err
	}
	closeLog, err := logTo(filepath.Join(dir, "larder.log"))
	if err != nil {
		return 1, err
	}
	defer closeLog()
	// Without a watch cache for ConfigMaps, their history is lost as soon as etcd is compacted.
	shared, err = controlplane.Start(context.Background(), controlplane.Options{
		Dir: dir, Args: []string{"--watch-cache-sizes=configmaps#0"}, Env: serverEnv(),
	})
	if err != nil {
		return 1, err
	}
	code = m.Run()
	if code == 0 {
		if err := leftBehind(); err != nil {
			return 1, err
		}
	}
	if err := shared.Stop(); err != nil {
		return 1, err
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, "e2e: logs are in", dir)
		return code, nil
	}
	return code, os.RemoveAll(dir)
}

// serverEnv returns environment variables with which the servers collect garbage less often, because garbage collection
// takes a fifth of their processor time. Long runs have 100,000 objects, so they keep the default.
func serverEnv() []string {
	if soak {
		return nil
	}
	return []string{"GOGC=400"}
}

// noticeDeadConnectionsSoon shortens client-go's HTTP/2 health check, by default 30 s and 15 s. It must be called
// before the first client is made: client-go reads the setting when it makes a transport, and clients share transports.
func noticeDeadConnectionsSoon() error {
	if soak {
		return nil
	}
	if err := os.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "2"); err != nil {
		return err
	}
	return os.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "1")
}

// leftBehind returns an error if a goroutine of Larder still runs after the tests. It does not use goleak, which would
// also report client-go's idle connections.
func leftBehind() (err error) {
	for range 100 {
		if err = stillRunning(); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

func stillRunning() error {
	buf := make([]byte, 16<<20)
	for _, stack := range strings.Split(string(buf[:goruntime.Stack(buf, true)]), "\n\n") {
		for _, pkg := range []string{"fifo", "informer", "reflector", "snapshot", "store"} {
			if strings.Contains(stack, "larder-dev/larder/"+pkg+".") {
				return fmt.Errorf("every informer has been stopped and every store closed, but this is running:\n%s", stack)
			}
		}
	}
	return nil
}

func logTo(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true"} {
		if err := flags.Set(name, value); err != nil {
			return nil, err
		}
	}
	klog.SetOutput(f)
	return func() {
		klog.Flush()
		klog.SetOutput(io.Discard)
		f.Close()
	}, nil
}

func ownControlPlane(t *testing.T, flags ...string) *controlplane.ControlPlane {
	t.Helper()
	dir, err := os.MkdirTemp("", "larder-e2e-own-")
	if err != nil {
		t.Fatal(err)
	}
	cp, err := controlplane.Start(t.Context(), controlplane.Options{Dir: dir, Args: flags, Env: serverEnv()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log("logs are in", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return cp
}

type cluster struct {
	*controlplane.ControlPlane
	client kubernetes.Interface
	ns     string
	since  int64 // offset in the audit log at the last call of mark
}

func newCluster(t *testing.T, cp *controlplane.ControlPlane) *cluster {
	t.Helper()
	cfg := cp.Config(writer)
	cfg.ContentType = runtime.ContentTypeProtobuf // protobuf is cheaper than JSON for client and server
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{ControlPlane: cp, client: client}
	c.ns = c.newNamespace(t)
	return c
}

func (c *cluster) newNamespace(t *testing.T) string {
	t.Helper()
	ns, err := c.client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

func (c *cluster) restartAPIServer(t *testing.T) {
	t.Helper()
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) mark(t *testing.T) {
	t.Helper()
	var err error
	if c.since, err = c.Mark(); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) asked(t *testing.T, userAgent, resource string) asked {
	t.Helper()
	all, err := c.Requests(userAgent, c.since)
	if err != nil {
		t.Fatal(err)
	}
	var a asked
	for _, r := range all {
		switch {
		case r.Resource != resource:
		case r.Probe():
			a.probes++
		case r.Lookup():
			a.lookups++
		case r.Compare():
			a.compares++
		case r.List():
			a.lists = append(a.lists, r)
		case r.Watch():
			a.watches = append(a.watches, r)
		}
	}
	return a
}

type asked struct {
	probes, lookups, compares int
	lists, watches            []*controlplane.Request
}

// newRandom returns a random source with the seed in LARDER_E2E_SEED, or a seed from the clock. It logs the seed.
func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("LARDER_E2E_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("LARDER_E2E_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, seed))
}

func eventually(t *testing.T, what string, check func() string) {
	t.Helper()
	within(t, time.Minute, what, check)
}

func within(t *testing.T, limit time.Duration, what string, check func() string) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		problem := check()
		if problem == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %s", what, problem)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *cluster) listedBy(t *testing.T, agent, resource string) (by []string) {
	t.Helper()
	a := c.asked(t, agent, resource)
	for _, r := range a.lists {
		by = append(by, "list "+r.Query.Get("resourceVersion")+" "+r.Query.Get("resourceVersionMatch"))
	}
	for _, r := range a.watches {
		if r.Query.Get("sendInitialEvents") == "true" {
			by = append(by, "watch "+r.Query.Get("resourceVersion")+r.Query.Get("resourceVersionMatch"))
		}
	}
	return by
}
