package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/sample"
	"github.com/larder-dev/larder/store"
)

// BenchmarkGet measures whole runs of larder get on 100,000 pods: from a file, and from a store that an offline sync
// holds open. docs/performance.md has its figures.
func BenchmarkGet(b *testing.B) {
	file, held := filepath.Join(b.TempDir(), "s.db"), filepath.Join(b.TempDir(), "s.db")
	storePods(b, file, 100_000)
	data, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(held, data, 0o600); err != nil {
		b.Fatal(err)
	}
	holdOffline(b, held)
	for _, args := range []string{"pods -A", "pods -A -o name"} {
		for from, path := range map[string]string{"file": file, "sync": held} {
			b.Run(from+": "+args, func(b *testing.B) {
				for b.Loop() {
					out, err := exec.Command("larder", append([]string{"get", "--from", path}, strings.Fields(args)...)...).Output()
					if err != nil || bytes.Count(out, []byte("\n")) < 100_000 {
						b.Fatalf("%d bytes, %v", len(out), err)
					}
				}
			})
		}
	}
}

func holdOffline(b *testing.B, path string) {
	b.Helper()
	kubeconfig := filepath.Join(b.TempDir(), "config")
	offline := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c}}]\n" +
		"clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
	if err := os.WriteFile(kubeconfig, []byte(offline), 0o600); err != nil {
		b.Fatal(err)
	}
	sync := exec.Command("larder", "sync", "pods", "--store", path, "--quiet", "--kubeconfig", kubeconfig)
	if err := sync.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = sync.Process.Signal(os.Interrupt), sync.Wait() })
	for running := false; !running; time.Sleep(50 * time.Millisecond) {
		out, _ := exec.Command("larder", "status", "--from", path).Output()
		running = bytes.Contains(out, []byte("Sync:   process"))
	}
}

func storePods(b *testing.B, path string, n int) {
	b.Helper()
	st, err := store.Open(path, store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	id := entry.Identity{GroupVersionResource: gvr("pods"), Representation: entry.Unstructured}
	c, err := st.Collection(b.Context(), id, store.CollectionOptions{Codec: codec.Unstructured(), Residency: store.None,
		Resource: entry.ResourceInfo{Kind: "Pod", Namespaced: true}})
	if err != nil {
		b.Fatal(err)
	}
	list, err := c.BeginReplace(b.Context(), store.ReplaceOptions{})
	if err != nil {
		b.Fatal(err)
	}
	_, pod := sample.Pod(b)
	for page := range n / 1000 {
		var objects []runtime.Object
		for i := range 1000 {
			u := pod.DeepCopy()
			u.SetNamespace(fmt.Sprintf("team-%03d", page))
			u.SetName(fmt.Sprintf("%s%05d", pod.GetGenerateName(), i))
			u.SetResourceVersion(fmt.Sprint(1 + page*1000 + i))
			objects = append(objects, u)
		}
		if _, err := list.Page(b.Context(), objects); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := list.Commit(b.Context(), entry.Batch{ResourceVersion: fmt.Sprint(n)}); err != nil {
		b.Fatal(err)
	}
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
}
