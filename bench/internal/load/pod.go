package load

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// podStart is a fixed time, so that a pod depends only on its number and revision.
var podStart = metav1.NewTime(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))

func newPod(i, revision int) runtime.Object {
	// A hundred successive pods belong to one deployment, and differ as little as real ones.
	app, hash := fmt.Sprintf("service-%05d", i/100), fmt.Sprintf("%010x", i/100*7919)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: objectName("pods", i), Namespace: Namespace(i),
			Labels: map[string]string{
				"app.kubernetes.io/name": app, "app.kubernetes.io/instance": app + "-production",
				"app.kubernetes.io/version": "1.27." + strconv.Itoa(i/100%7), "pod-template-hash": hash,
				"topology.kubernetes.io/zone": "zone-" + strconv.Itoa(i%3),
			},
			Annotations: map[string]string{
				RevisionAnnotation:     strconv.Itoa(revision),
				"prometheus.io/scrape": "true", "prometheus.io/port": "9090",
				"checksum/config": fmt.Sprintf("%064x", i/100*7919),
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-" + hash,
				UID: "6f4c3d2e-1b0a-4f9e-8d7c-6b5a49382716", Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: corev1.PodSpec{
			NodeName:           fmt.Sprintf("node-%04d.example.internal", i%500),
			ServiceAccountName: app, PriorityClassName: "", SchedulerName: corev1.DefaultSchedulerName,
			Containers: []corev1.Container{newContainer(app, i)},
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: app + "-config"},
				}}},
				{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
			Tolerations: []corev1.Toleration{
				newToleration(corev1.TaintNodeNotReady), newToleration(corev1.TaintNodeUnreachable),
			},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, HostIP: fmt.Sprintf("10.1.%d.%d", i/250%250, i%250), StartTime: &podStart,
			PodIP: fmt.Sprintf("10.2.%d.%d", i/250%250, i%250), QOSClass: corev1.PodQOSBurstable,
		},
	}
	for _, t := range []corev1.PodConditionType{
		corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
	} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: t, Status: corev1.ConditionTrue, LastTransitionTime: podStart,
		})
	}
	return pod
}

func newToleration(taint string) corev1.Toleration {
	return corev1.Toleration{
		Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		TolerationSeconds: new(int64(300)),
	}
}

func newContainer(app string, i int) corev1.Container {
	return corev1.Container{
		Name: "main", Image: "images.example.internal/team/" + app + ":1.27." + strconv.Itoa(i/100%7),
		Args: []string{"--listen=:8080", "--log-format=json", "--shard=" + strconv.Itoa(i%16)},
		Ports: []corev1.ContainerPort{
			{Name: "http-main", ContainerPort: 8080, Protocol: corev1.ProtocolTCP},
			{Name: "probe-main", ContainerPort: 9090, Protocol: corev1.ProtocolTCP},
		},
		Env: []corev1.EnvVar{
			{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"},
			}},
			{Name: "REGION", Value: "region-" + strconv.Itoa(i/100%4)}, {Name: "WORKERS", Value: "16"},
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
			},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		},
		VolumeMounts:    []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config"}, {Name: "tmp", MountPath: "/tmp"}},
		ImagePullPolicy: corev1.PullIfNotPresent,
	}
}

// WithManagedFields adds managedFields to a pod, as a real server does: one manager with every field. Objects of other
// kinds are unchanged.
func WithManagedFields(obj runtime.Object) runtime.Object {
	if pod, ok := obj.(*corev1.Pod); ok {
		pod.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
			Time: &podStart, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(podFields()),
		}}
	}
	return obj
}

// podFields returns the managedFields that all pods share, because all pods have the same fields.
var podFields = sync.OnceValue(func() string {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(newPod(0, 0))
	if err != nil {
		panic(err) // cannot happen: newPod returns a valid pod
	}
	delete(content, "status")
	fields, err := fieldpath.SetFromValue(value.NewValueInterface(content)).ToJSON()
	if err != nil {
		panic(err)
	}
	return string(fields)
})
