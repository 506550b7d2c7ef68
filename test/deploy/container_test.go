package deploy

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/larder-dev/larder/test/e2e/controlplane"
)

func (p *sandbox) runToEnd(t *testing.T) {
	t.Helper()
	for _, c := range p.containers() {
		p.runOnce(t, c)
	}
}

func (p *sandbox) runOnce(t *testing.T, c corev1.Container) {
	t.Helper()
	line := p.command(t, c)
	out, err := exec.CommandContext(t.Context(), line[0], line[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("the container %s: %v\n%s", c.Name, err, out)
	}
	if text := string(out); strings.Contains(strings.ToLower(text), "forbidden") || strings.Contains(text, "note:") {
		t.Errorf("the container %s says\n%s", c.Name, text)
	}
}

type running struct {
	*sandbox
	log     string
	process *controlplane.Process
}

func (p *sandbox) run(t *testing.T) *running {
	t.Helper()
	for _, c := range p.pod.Spec.InitContainers {
		p.runOnce(t, c)
	}
	if len(p.pod.Spec.Containers) != 1 {
		t.Fatal("there is not one container")
	}
	r := &running{sandbox: p, log: filepath.Join(p.dir, "log")}
	line := p.command(t, p.pod.Spec.Containers[0])
	var err error
	if r.process, err = controlplane.StartProcess(p.pod.Name, r.log, nil, line[0], line[1:]...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.process.Kill)
	return r
}

// stop terminates the process as the kubelet does. The container's log must have no message about missing permissions.
func (r *running) stop(t *testing.T) {
	t.Helper()
	if err := r.process.Terminate(); err != nil {
		t.Error(err)
	}
	for _, word := range []string{"forbidden", "unauthorized", "panic"} {
		if text := r.text(t); strings.Contains(strings.ToLower(text), word) {
			t.Errorf("the log of %s has %q:\n%s", r.pod.Name, word, text)
		}
	}
}

func (r *running) text(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(r.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// command returns the command line that runs a container on this machine. It starts with env -i, so that only the
// variables of the chart and of the kubelet are set.
func (p *sandbox) command(t *testing.T, c corev1.Container) []string {
	t.Helper()
	words := slices.Concat(c.Command, c.Args)
	if len(c.Command) == 0 {
		words = slices.Concat([]string{"/usr/local/bin/larder"}, c.Args) // the entrypoint of the image
	}
	if words[0] != "/usr/local/bin/larder" {
		t.Fatalf("the image has no %s", words[0])
	}
	for i := range words {
		words[i] = strings.ReplaceAll(p.local(words[i]), "65532:65532", fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()))
	}
	host, port, err := net.SplitHostPort(p.w.Address())
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"PATH": "/usr/local/bin", "HOME": p.dir,
		"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
	for _, from := range c.EnvFrom {
		maps.Copy(env, p.secret(t, from.SecretRef.Name))
	}
	for _, v := range c.Env {
		switch from := v.ValueFrom; {
		case from == nil:
			env[v.Name] = p.local(v.Value)
		case from.FieldRef != nil && from.FieldRef.FieldPath == "spec.nodeName":
			env[v.Name] = nodeName
		case from.SecretKeyRef != nil:
			env[v.Name] = p.secret(t, from.SecretKeyRef.Name)[from.SecretKeyRef.Key]
		default:
			t.Fatalf("the variable %s comes from somewhere unknown", v.Name)
		}
	}
	p.enterCluster(t, env)
	line := []string{"env", "-i"}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		line = append(line, name+"="+env[name])
	}
	return slices.Concat(line, []string{p.w.larder}, words[1:])
}

// enterCluster sets KUBECONFIG to a file with the mounted token and the server of the pod's environment. Otherwise
// larder would call rest.InClusterConfig, whose files are below /var/run, where a test cannot write.
func (p *sandbox) enterCluster(t *testing.T, env map[string]string) {
	t.Helper()
	access := filepath.Join(p.dir, accessDir)
	if _, err := os.Stat(filepath.Join(access, "token")); err != nil {
		return
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{CertificateAuthority: filepath.Join(access, "ca.crt"),
		Server: "https://" + net.JoinHostPort(env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"])}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{TokenFile: filepath.Join(access, "token")}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	env["KUBECONFIG"] = filepath.Join(p.dir, "in-cluster")
	if err := clientcmd.WriteToFile(*config, env["KUBECONFIG"]); err != nil {
		t.Fatal(err)
	}
}
