package deploy

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/internal/sample"
)

var measured = flag.Int("pods", 200, "number of pods that TestResources measures with")

// TestResources checks that containers stay below their memory limits. With -v it prints the table of deploy/README.md:
// memory and processor time of a first start with snapshots, and of a job.
func TestResources(t *testing.T) {
	w := newWorld(t)
	w.namespace(t, "measured", "restricted")
	w.certificate(t, "measured")
	w.fill(t, "measured", *measured)
	release := render(t, "measured", `
resources: [{name: pods}]
node: {enabled: true, hostPath: '', allPods: true, serve: true}
mirror: {enabled: true, snapshotTo: /var/lib/larder/snapshots/, args: [--snapshot-every=1s]}
snapshots: {enabled: true}`)
	w.apply(t, release.objects...)
	pods := release.pods(t)
	for _, component := range []string{"node", "mirror"} {
		p := w.sandbox(t, pods[component], t.TempDir(), nil)
		c := p.pod.Spec.Containers[0]
		taken := p.measure(t, c, func() {
			(&running{sandbox: p, log: os.DevNull}).ready(t, 1)
			// The usage includes five seconds of an idle mirror that makes snapshots, or less with few pods.
			time.Sleep(min(5*time.Second, time.Duration(*measured)*5*time.Millisecond))
		})
		taken.report(t, component, c)
	}
	p := w.sandbox(t, pods["snapshots"], t.TempDir(), nil)
	for _, c := range p.containers() {
		p.measure(t, c, nil).report(t, "snapshots, "+c.Name, c)
	}
	w.remove(t, release.objects...)
	atOnce := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	if err := w.client.CoreV1().Pods("default").DeleteCollection(t.Context(), atOnce,
		metav1.ListOptions{LabelSelector: "app=web"}); err != nil {
		t.Log("the pods are still there:", err) // the server limits the time of a deletion, so the pods may still exist
	}
}

type usage struct {
	memory    int64 // peak of RssAnon; 0 on a system without /proc
	processor time.Duration
}

func (u usage) report(t *testing.T, name string, c corev1.Container) {
	t.Helper()
	t.Logf("%d pods, %s: %.0f MB, %.2f s of a processor", *measured, name, float64(u.memory)/1e6, u.processor.Seconds())
	limit := c.Resources.Limits[corev1.ResourceMemory]
	if u.memory > limit.Value() || limit.Cmp(resource.MustParse("0")) <= 0 {
		t.Errorf("%s takes %d bytes, and may take %s", name, u.memory, limit.String())
	}
	if runtime.GOOS == "linux" && u.memory == 0 {
		t.Errorf("nothing was measured of %s", name)
	}
}

// measure runs a container and returns its usage. If meanwhile is not nil, measure calls it while the container runs,
// and then terminates the container. Otherwise measure waits until the container ends.
func (p *sandbox) measure(t *testing.T, c corev1.Container, meanwhile func()) (u usage) {
	t.Helper()
	line := p.command(t, c)
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		for {
			u.memory = max(u.memory, anonymous(cmd.Process.Pid))
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	})
	if meanwhile != nil {
		meanwhile()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	err := cmd.Wait()
	close(done)
	sampling.Wait()
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	u.processor = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return u
}

func anonymous(pid int) (n int64) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	if _, line, ok := strings.Cut(string(status), "RssAnon:"); ok {
		_, _ = fmt.Sscan(line, &n)
	}
	return n << 10
}

func (w *world) fill(t *testing.T, namespace string, n int) {
	t.Helper()
	like, _ := sample.Pod(t)
	like.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Labels: like.Labels, Annotations: like.Annotations,
		OwnerReferences: like.OwnerReferences}
	numbers := make(chan int)
	var making sync.WaitGroup
	for range 8 {
		making.Go(func() {
			for i := range numbers {
				pod := like.DeepCopy()
				pod.Name = fmt.Sprintf("%s-%06d", namespace, i)
				_, err := w.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
				if err != nil && !apierrors.IsAlreadyExists(err) {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	making.Wait()
}
