package snapshot_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

// BenchmarkSaveRestore saves and restores an open store of pods, and samples the peak heap every 5 ms. Run it with
// -benchtime 1x -count 3.
func BenchmarkSaveRestore(b *testing.B) {
	for _, pods := range []int{10_000, 100_000} {
		b.Run(strconv.Itoa(pods), func(b *testing.B) {
			for b.Loop() {
				benchSaveRestore(b, pods)
			}
		})
	}
}

func benchSaveRestore(b *testing.B, pods int) {
	dir := b.TempDir()
	s := benchStore(b, filepath.Join(dir, "a.db"), pods)
	total, free, err := s.Size()
	if err != nil {
		b.Fatal(err)
	}
	path, to := filepath.Join(dir, "a.larder"), filepath.Join(dir, "b.db")
	var saved snapshot.Saved
	measure(b, "save", func() error {
		saved, err = snapshot.SaveStore(context.Background(), s, path, snapshot.SaveOptions{})
		return err
	})
	measure(b, "restore", func() error {
		_, err := snapshot.Restore(context.Background(), path, to,
			snapshot.RestoreOptions{Import: store.ImportOptions{Store: store.Options{Logger: &quiet}}})
		return err
	})
	info, err := os.Stat(to)
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	mib := func(n int64) float64 { return float64(n) / (1 << 20) }
	b.ReportMetric(mib(total-free), "store-MiB")
	b.ReportMetric(mib(info.Size()), "restored-MiB")
	b.ReportMetric(mib(saved.Size), "snapshot-MiB")
	b.ReportMetric(mib(saved.Bytes), "payload-MiB")
	b.ReportMetric(0, "ns/op")
}

func measure(b *testing.B, what string, fn func() error) {
	b.Helper()
	runtime.GC()
	before, peak := heapNow(), uint64(0)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-tick.C:
				peak = max(peak, heapNow())
			case <-stop:
				tick.Stop()
				return
			}
		}
	})
	began := time.Now()
	err := fn()
	took := time.Since(began)
	close(stop)
	wg.Wait()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(took.Seconds(), what+"-s")
	b.ReportMetric(float64(max(peak, before)-before)/(1<<20), what+"-heap-MiB")
}

func heapNow() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// benchStore returns a store of pods of about 3 KB that vary like the pods of a cluster.
func benchStore(b *testing.B, path string, pods int) *store.Store {
	b.Helper()
	s := mustOpen(b, path)
	codec := mustCodec(b, &corev1.Pod{})
	c, err := s.Collection(context.Background(), savedPods, store.CollectionOptions{Codec: codec, Residency: store.None})
	if err != nil {
		b.Fatal(err)
	}
	r, err := c.BeginReplace(context.Background(),
		store.ReplaceOptions{Attributes: entry.Attributes{Codec: codec.Name(), Schema: codec.Fingerprint()}})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Abort()
	random := rand.New(rand.NewPCG(1, 2))
	for from := 0; from < pods; from += 1000 {
		var page []k8sruntime.Object
		for i := from; i < from+1000; i++ {
			page = append(page, savedBenchPod(random, i))
		}
		if _, err := r.Page(context.Background(), page); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := r.Commit(context.Background(), entry.Batch{ResourceVersion: "1000000"}); err != nil {
		b.Fatal(err)
	}
	return s
}

func randomHex(random *rand.Rand, n int) string {
	b := make([]byte, n/2)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return hex.EncodeToString(b)
}

func savedBenchPod(random *rand.Rand, i int) *corev1.Pod {
	app, now := fmt.Sprintf("app-%d", i/50), metav1.Unix(1_760_000_000+int64(random.IntN(10_000_000)), 0)
	name := fmt.Sprintf("%s-%s-%05d", app, randomHex(random, 10), i%50)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("team-%03d", i/500), Name: name, GenerateName: app + "-",
			UID: types.UID(randomHex(random, 32)), ResourceVersion: strconv.Itoa(random.IntN(1_000_000)),
			CreationTimestamp: now, Labels: map[string]string{"app": app, "tier": fmt.Sprintf("tier-%d", i%4),
				"pod-template-hash": randomHex(random, 10)},
			Annotations: map[string]string{"checksum/config": randomHex(random, 64),
				"network/status": fmt.Sprintf(`[{"ips":["10.%d.%d.%d"],"mac":"%s"}]`, i>>16, i>>8&255, i&255,
					randomHex(random, 12))},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app,
				UID: types.UID(randomHex(random, 32))}},
		},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", random.IntN(500)), ServiceAccountName: app},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), StartTime: &now,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}},
		},
	}
	for n := range 2 {
		image := fmt.Sprintf("images/%s-%d:%d", app, n, i%20)
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: fmt.Sprintf("c%d", n), Image: image, Args: []string{"--listen=:8080", "--peer=" + app + ".svc", "--verbose"},
			Env: []corev1.EnvVar{{Name: "APP", Value: app}, {Name: "TOKEN_FILE", Value: "/var/run/token"},
				{Name: "RELEASE", Value: randomHex(random, 40)}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"),
				corev1.ResourceMemory: resource.MustParse("128Mi")}},
		})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: fmt.Sprintf("c%d", n), Ready: true, Image: image, ImageID: "sha256:" + randomHex(random, 64),
			ContainerID: "containerd://" + randomHex(random, 64),
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	for _, manager := range []string{"kube-controller-manager", "kubelet"} {
		p.ManagedFields = append(p.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &now,
			FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(
				`{"f:metadata":{"f:labels":{".":{},"f:app":{},"f:tier":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c0\"}":{".":{},"f:image":{},"f:resources":{}}}},"f:status":{"f:conditions":{},"f:podIP":{}}}`),
		})
	}
	return p
}
