package deploy

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const nodeName = "node-1"

// accessDir is the mount path of the service account's token, where rest.InClusterConfig reads the token.
const accessDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// sandbox runs a pod's containers on this machine. A temporary directory has the files that the kubelet would mount,
// below their mount paths. In arguments, variables and mounted files, local paths replace mount paths, loopback
// addresses replace listen addresses, and addresses replace Service names. Everything else is unchanged.
type sandbox struct {
	w            *world
	pod          *corev1.Pod
	dir          string
	ports        map[string]string // local HOST:PORT, by the name of the container port
	replacements []string          // pairs of a text in the chart and its local replacement
}

// sandbox prepares the volumes of a pod on this machine. Persistent volumes are in the directory kept. services maps
// Service names to the HOST:PORT of their pods.
func (w *world) sandbox(t *testing.T, pod *corev1.Pod, kept string, services map[string]string) *sandbox {
	t.Helper()
	p := &sandbox{w: w, pod: pod, dir: t.TempDir(), ports: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(services)) {
		p.replacements = append(p.replacements, name, services[name])
	}
	volumes := map[string]string{}
	for _, c := range p.containers() {
		for _, port := range c.Ports {
			p.ports[port.Name] = freeAddress(t)
			p.replacements = append(p.replacements, fmt.Sprintf("0.0.0.0:%d", port.ContainerPort), p.ports[port.Name])
		}
		for _, m := range c.VolumeMounts {
			if at, ok := volumes[m.Name]; ok && at != m.MountPath {
				t.Fatalf("the volume %s is at %s and at %s", m.Name, at, m.MountPath)
			}
			volumes[m.Name] = m.MountPath
		}
	}
	if a := pod.Spec.AutomountServiceAccountToken; a == nil || *a {
		p.mount(t, accessDir, p.access(t))
		p.replacements = append(p.replacements, accessDir, filepath.Join(p.dir, accessDir))
	}
	for _, name := range slices.SortedFunc(maps.Keys(volumes), longest(volumes)) {
		dir := filepath.Join(p.dir, volumes[name])
		if v := p.volume(t, name); v.HostPath != nil || v.PersistentVolumeClaim != nil {
			dir = filepath.Join(kept, name)
		}
		p.replacements = append(p.replacements, volumes[name]+"/", dir+"/", volumes[name], dir)
	}
	for name, path := range volumes {
		switch v := p.volume(t, name); {
		case v.HostPath != nil, v.PersistentVolumeClaim != nil:
			if err := os.MkdirAll(filepath.Join(kept, name), 0o700); err != nil {
				t.Fatal(err)
			}
		default:
			p.mount(t, path, p.files(t, v))
		}
	}
	return p
}

func longest(volumes map[string]string) func(a, b string) int {
	return func(a, b string) int { return len(volumes[b]) - len(volumes[a]) }
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (p *sandbox) containers() []corev1.Container {
	return slices.Concat(p.pod.Spec.InitContainers, p.pod.Spec.Containers)
}

func (p *sandbox) volume(t *testing.T, name string) corev1.Volume {
	t.Helper()
	i := slices.IndexFunc(p.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	if i < 0 {
		t.Fatalf("there is no volume %s", name)
	}
	return p.pod.Spec.Volumes[i]
}

func (p *sandbox) mount(t *testing.T, path string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(p.dir, path, name)
		err := os.MkdirAll(filepath.Dir(file), 0o700)
		if err == nil {
			err = os.WriteFile(file, []byte(p.local(text)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(p.dir, path), 0o700); err != nil {
		t.Fatal(err)
	}
}

func (p *sandbox) local(text string) string {
	return strings.NewReplacer(p.replacements...).Replace(text)
}

func (p *sandbox) files(t *testing.T, v corev1.Volume) map[string]string {
	t.Helper()
	switch {
	case v.EmptyDir != nil:
		return nil
	case v.ConfigMap != nil:
		return p.keys(t, p.configMap(t, v.ConfigMap.Name), v.ConfigMap.Items)
	case v.Secret != nil:
		return p.keys(t, p.secret(t, v.Secret.SecretName), v.Secret.Items)
	case v.Projected == nil:
		t.Fatalf("the volume %s is of an unknown kind", v.Name)
	}
	all := map[string]string{}
	for _, s := range v.Projected.Sources {
		switch {
		case s.ServiceAccountToken != nil:
			all[s.ServiceAccountToken.Path] = p.w.token(t, p.pod.Namespace, p.pod.Spec.ServiceAccountName)
		case s.ConfigMap != nil:
			maps.Copy(all, p.keys(t, p.configMap(t, s.ConfigMap.Name), s.ConfigMap.Items))
		case s.DownwardAPI != nil && s.DownwardAPI.Items[0].FieldRef.FieldPath == "metadata.namespace":
			all[s.DownwardAPI.Items[0].Path] = p.pod.Namespace
		default:
			t.Fatalf("a source of %s is of an unknown kind", v.Name)
		}
	}
	return all
}

func (p *sandbox) keys(t *testing.T, data map[string]string, items []corev1.KeyToPath) map[string]string {
	t.Helper()
	if len(items) == 0 {
		return data
	}
	files := map[string]string{}
	for _, item := range items {
		text, ok := data[item.Key]
		if !ok {
			t.Fatalf("there is no key %s", item.Key)
		}
		files[item.Path] = text
	}
	return files
}

func (p *sandbox) configMap(t *testing.T, name string) map[string]string {
	t.Helper()
	m, err := p.w.client.CoreV1().ConfigMaps(p.pod.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m.Data
}

func (p *sandbox) secret(t *testing.T, name string) map[string]string {
	t.Helper()
	s, err := p.w.client.CoreV1().Secrets(p.pod.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data := map[string]string{}
	for key, value := range s.Data {
		data[key] = string(value)
	}
	return data
}

// access returns the files of the pod's service account, which the kubelet mounts by default: token, certificate and
// namespace.
func (p *sandbox) access(t *testing.T) map[string]string {
	t.Helper()
	authority := p.configMap(t, "kube-root-ca.crt")
	return map[string]string{"token": p.w.token(t, p.pod.Namespace, p.pod.Spec.ServiceAccountName),
		"ca.crt": authority["ca.crt"], "namespace": p.pod.Namespace}
}
