package clients

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// TestInformers runs client-go's informers on a mirror that is killed and restarted while objects change. The informers
// must end with the API server's state without a request to the API server, and the mirror must not repeat its lists.
func TestInformers(t *testing.T) {
	client := writer(t)
	namespace(t, client, "informers")
	w := &world{t: t, client: client, random: rand.New(rand.NewPCG(1, 2))}
	w.change(60)
	m := mirror(t, "informers", []string{"pods", "configmaps", "deployments.apps"})
	mark, err := site.Server.Mark()
	if err != nil {
		t.Fatal(err)
	}
	children := []*informersChild{newInformersChild(t, m.Kubeconfig, true), newInformersChild(t, m.Kubeconfig, false)}
	converge := func(when string) {
		t.Helper()
		for _, c := range children {
			eventually(t, "the informers have the API server's state "+when, func() error { return c.differs(w.state()) })
		}
	}
	converge("at first")
	rounds := 3
	if soak {
		rounds = 30
	}
	for i := range rounds {
		w.change(30)
		m.Kill()
		w.change(30)
		restart(t, m)
		w.change(30)
		if i == 0 {
			converge("after a kill")
		}
	}
	converge("at last")
	requests, err := site.Server.Requests("", mark)
	if err != nil {
		t.Fatal(err)
	}
	watches := 0
	for _, r := range requests {
		switch {
		case strings.HasPrefix(r.UserAgent, "informers"):
			t.Errorf("the API server was asked by an informer: %s", r)
		case r.List() && slices.Contains([]string{"pods", "configmaps", "deployments"}, r.Resource):
			t.Errorf("the API server was asked for a list by %s: %s", r.UserAgent, r)
		case r.Watch():
			watches++
		}
	}
	if watches < 3*rounds {
		t.Errorf("the API server had %d watches in %d restarts: whose requests are these?", watches, rounds)
	}
}

type world struct {
	t      *testing.T
	client kubernetes.Interface
	random *rand.Rand
}

func (w *world) change(n int) {
	w.t.Helper()
	const ns = "informers"
	ctx := w.t.Context()
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	for range n {
		name := fmt.Sprintf("o-%d", w.random.IntN(20))
		object := metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}
		patch := []byte(fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, w.random.Uint64()))
		none := int64(0)
		gone := metav1.DeleteOptions{GracePeriodSeconds: &none}
		pods, configMaps := w.client.CoreV1().Pods(ns), w.client.CoreV1().ConfigMaps(ns)
		deployments := w.client.AppsV1().Deployments(ns)
		var err error
		switch w.random.IntN(9) {
		case 0:
			_, err = pods.Create(ctx, &corev1.Pod{ObjectMeta: object, Spec: spec}, metav1.CreateOptions{})
		case 1:
			_, err = pods.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		case 2:
			err = pods.Delete(ctx, name, gone)
		case 3:
			_, err = configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: object}, metav1.CreateOptions{})
		case 4:
			_, err = configMaps.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		case 5:
			err = configMaps.Delete(ctx, name, gone)
		case 6:
			_, err = deployments.Create(ctx, &appsv1.Deployment{ObjectMeta: object, Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: object.Labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: object.Labels}, Spec: spec},
			}}, metav1.CreateOptions{})
		case 7:
			_, err = deployments.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		case 8:
			err = deployments.Delete(ctx, name, gone)
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
			w.t.Fatal(err)
		}
	}
}

func (w *world) state() state {
	w.t.Helper()
	s := state{}
	put := func(resource string, list runtime.Object, err error) {
		w.t.Helper()
		if err == nil {
			err = meta.EachListItem(list, func(o runtime.Object) error { return s.put(resource, o) })
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	ctx := w.t.Context()
	pods, err := w.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	put("pods", pods, err)
	configMaps, err := w.client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
	put("configmaps", configMaps, err)
	deployments, err := w.client.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	put("deployments", deployments, err)
	return s
}

type informersChild struct {
	t     *testing.T
	in    io.Writer
	out   *bufio.Reader
	agent string
}

func newInformersChild(t *testing.T, kubeconfig string, watchList bool) *informersChild {
	t.Helper()
	c := &informersChild{t: t, agent: fmt.Sprintf("informers-watchlist-%v", watchList)}
	config, err := json.Marshal(informersConfig{Kubeconfig: kubeconfig, Agents: map[string]string{
		runtime.ContentTypeJSON: c.agent + "-json", runtime.ContentTypeProtobuf: c.agent + "-protobuf",
	}})
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(site.Dir, c.agent+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), informersEnv+"="+string(config),
		fmt.Sprintf("KUBE_FEATURE_WatchListClient=%v", watchList))
	cmd.Stderr = log
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	if errIn != nil || errOut != nil {
		t.Fatal(errIn, errOut)
	}
	c.in, c.out = in, bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
	})
	return c
}

func (c *informersChild) differs(want state) error {
	c.t.Helper()
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		c.t.Fatal(err)
	}
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	var all map[string]informersReport
	if err := json.Unmarshal(line, &all); err != nil {
		c.t.Fatal(err)
	}
	if len(all) != 2 {
		c.t.Fatalf("reports of %v", slices.Collect(maps.Keys(all)))
	}
	for agent, r := range all {
		if diff := cmp.Diff(want, r.Stored) + cmp.Diff(want, r.Received); diff != "" {
			return fmt.Errorf("%s (- API server, + stored and told):\n%s", agent, diff)
		}
	}
	return nil
}
