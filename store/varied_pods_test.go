package store_test

import (
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// variedPods generates pods as in a real cluster, of many workloads that differ in containers, labels, managedFields
// and so on. Pods of a single template would compress too well.
type variedPods struct {
	r         *rand.Rand
	workloads []workload       // workloads whose pods the list has not returned yet
	ready     []runtime.Object // pods of the current workload that the list has not returned yet
}

type workload struct {
	pod  corev1.Pod
	set  string
	size int
}

// variedRV is a resourceVersion that is at least as high as that of any generated pod.
const variedRV = 10_000_000

const lettersAndDigits = "bcdfghjklmnpqrstvwxz2456789"

var variedWords = strings.Fields(`web api cart search auth mail queue worker cron proxy cache ledger billing report export import media resize index feed
	gateway stock price order payment user session audit metrics trace log stream batch sync notify render geo route ticket invoice`)

func newVariedPods(total, perWorkload int) *variedPods {
	v := &variedPods{r: rand.New(rand.NewPCG(1, 2))}
	for range (total + perWorkload - 1) / perWorkload {
		v.workloads = append(v.workloads, v.workload(perWorkload))
	}
	slices.SortFunc(v.workloads, func(a, b workload) int {
		return strings.Compare(a.pod.Namespace+"/"+a.set, b.pod.Namespace+"/"+b.set)
	})
	return v
}

func (v *variedPods) text(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = lettersAndDigits[v.r.IntN(len(lettersAndDigits))]
	}
	return string(b)
}

func (v *variedPods) hex(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(v.r.Uint32())
	}
	return hex.EncodeToString(b)
}

func (v *variedPods) uid() types.UID {
	h := v.hex(16)
	return types.UID(h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:])
}

func (v *variedPods) word() string { return variedWords[v.r.IntN(len(variedWords))] }

func (v *variedPods) between(from, to int) int { return from + v.r.IntN(to-from+1) }

func (v *variedPods) workload(size int) workload {
	name := v.word() + "-" + v.word() + "-" + v.text(2)
	hash := v.text(10)
	w := workload{set: name + "-" + hash, size: size}
	p := &w.pod
	p.Namespace = fmt.Sprintf("%s-%02d", v.word(), v.r.IntN(40))
	p.GenerateName = w.set + "-"
	p.Labels = map[string]string{"app.kubernetes.io/name": name, "pod-template-hash": hash}
	for i := range v.between(0, 4) {
		p.Labels[[]string{"app.kubernetes.io/part-of", "team", "tier", "app.kubernetes.io/version"}[i]] = v.word()
	}
	p.Annotations = map[string]string{}
	if v.r.IntN(2) == 0 {
		p.Annotations["checksum/config"] = v.hex(32)
	}
	if v.r.IntN(2) == 0 {
		p.Annotations["prometheus.io/scrape"], p.Annotations["prometheus.io/port"] = "true", fmt.Sprint(v.between(2000, 9999))
	}
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Name: w.set, UID: v.uid(), Controller: &yes, BlockOwnerDeletion: &yes,
	}}
	grace := int64(30)
	p.Spec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace, DNSPolicy: corev1.DNSClusterFirst,
		ServiceAccountName: name, DeprecatedServiceAccount: name, SecurityContext: &corev1.PodSecurityContext{},
		SchedulerName:      "default-scheduler",
		EnableServiceLinks: &yes, Tolerations: variedTolerations(),
	}
	for range v.between(0, 2) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: v.word() + "-config", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name + "-" +
				v.word()}, DefaultMode: new(int32)},
		}})
	}
	for i := range v.between(1, 2) {
		container := name
		if i > 0 {
			container = v.word() + "-sidecar"
		}
		p.Spec.Containers = append(p.Spec.Containers, v.container(container, p.Spec.Volumes))
	}
	return w
}

func variedTolerations() []corev1.Toleration {
	seconds := int64(300)
	return []corev1.Toleration{
		{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: &seconds},
		{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: &seconds},
	}
}

func (v *variedPods) container(name string, volumes []corev1.Volume) corev1.Container {
	port := int32(v.between(2000, 9999))
	c := corev1.Container{
		Name: name, Image: fmt.Sprintf("registry-%d.example.com/%s/%s:%d.%d.%d", v.r.IntN(3), v.word(), name, v.r.IntN(5),
			v.r.IntN(30), v.r.IntN(20)),
		Ports:                  []corev1.ContainerPort{{Name: "http", ContainerPort: port, Protocol: corev1.ProtocolTCP}},
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse(fmt.Sprintf("%dm", v.between(1, 40)*25)),
				"memory": resource.MustParse(fmt.Sprintf("%dMi", v.between(1, 64)*32))},
			Limits: corev1.ResourceList{"memory": resource.MustParse(fmt.Sprintf("%dMi", v.between(1, 64)*64))},
		},
	}
	for range v.between(2, 8) {
		e := corev1.EnvVar{Name: strings.ToUpper(v.word() + "_" + v.word())}
		switch v.r.IntN(4) {
		case 0:
			e.Value = fmt.Sprintf("http://%s.%s.svc.cluster.local:%d", v.word(), v.word(), v.between(1000, 9999))
		case 1:
			e.Value = v.text(v.between(4, 24))
		case 2:
			e.Value = fmt.Sprint(v.r.IntN(100_000))
		case 3:
			e.ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: v.word() + "-" + v.word()}, Key: v.word()}}
		}
		c.Env = append(c.Env, e)
	}
	if v.r.IntN(3) > 0 {
		c.ReadinessProbe = &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/" + v.word() + "z",
				Port: intstr.FromInt32(port), Scheme: corev1.URISchemeHTTP}},
			PeriodSeconds: int32(v.between(1, 30)), TimeoutSeconds: int32(v.between(1, 5)), SuccessThreshold: 1,
			FailureThreshold: int32(v.between(2, 5)),
		}
	}
	for _, volume := range volumes {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume.Name, ReadOnly: true,
			MountPath: "/etc/" + v.word()})
	}
	return c
}

func (v *variedPods) page(n int) []runtime.Object {
	pods := make([]runtime.Object, 0, n)
	for len(pods) < n {
		if len(v.ready) == 0 {
			if len(v.workloads) == 0 {
				break
			}
			v.ready = v.replicas(v.workloads[0])
			v.workloads = v.workloads[1:]
		}
		pods = append(pods, v.ready[0])
		v.ready = v.ready[1:]
	}
	return pods
}

func (v *variedPods) replicas(w workload) []runtime.Object {
	digests := make([]string, len(w.pod.Spec.Containers))
	for i := range digests {
		digests[i] = v.hex(32)
	}
	pods := make([]runtime.Object, w.size)
	for i := range pods {
		pods[i] = v.podOf(w, digests)
	}
	slices.SortFunc(pods, func(a, b runtime.Object) int {
		return strings.Compare(a.(*corev1.Pod).Name,
			b.(*corev1.Pod).Name)
	})
	return pods
}

func (v *variedPods) podOf(w workload, digests []string) *corev1.Pod {
	p := w.pod.DeepCopy()
	p.Name, p.UID, p.ResourceVersion = p.GenerateName+v.text(5), v.uid(), fmt.Sprint(1+v.r.IntN(variedRV))
	created := time.Unix(1_767_000_000+v.r.Int64N(30_000_000), 0).UTC()
	started := created.Add(time.Duration(v.between(1, 90)) * time.Second)
	p.CreationTimestamp = metav1.NewTime(created)
	p.Spec.NodeName = fmt.Sprintf("node-%03d.zone-%d.example.com", v.r.IntN(1000), v.r.IntN(3))
	token := "kube-api-access-" + v.text(5)
	mode, expires := int32(420), int64(3607)
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: token,
		VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: &mode,
			Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &expires, Path: "token"}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
					Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace",
					FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
			},
		}}})
	ip := fmt.Sprintf("10.%d.%d.%d", v.r.IntN(8), v.r.IntN(250), v.r.IntN(250))
	ready := corev1.ConditionTrue
	if v.r.IntN(12) == 0 {
		ready = corev1.ConditionFalse
	}
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable, StartTime: &metav1.Time{Time: created},
		HostIP: fmt.Sprintf("192.168.%d.%d", v.r.IntN(4), v.r.IntN(250)), PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
	}
	for _, kind := range []corev1.PodConditionType{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady",
		"PodScheduled"} {
		p.Status.Conditions = append(p.Status.Conditions,
			corev1.PodCondition{Type: kind, Status: ready, LastTransitionTime: metav1.NewTime(started)})
	}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: token, ReadOnly: true,
			MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"})
		yes := true
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name:  c.Name,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(started)}},
			Ready: ready == corev1.ConditionTrue, RestartCount: int32(v.r.IntN(4)), Image: c.Image, Started: &yes,
			ImageID: strings.Split(c.Image, ":")[0] + "@sha256:" + digests[i], ContainerID: "containerd://" + v.hex(32),
		})
	}
	p.ManagedFields = variedManagedFields(p, created, started)
	return p
}

func variedManagedFields(p *corev1.Pod, created, started time.Time) []metav1.ManagedFieldsEntry {
	var labels, annotations, containers strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p.Labels)) {
		fmt.Fprintf(&labels, `,"f:%s":{}`, name)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Annotations)) {
		fmt.Fprintf(&annotations, `,"f:%s":{}`, name)
	}
	for i, c := range p.Spec.Containers {
		if i > 0 {
			containers.WriteByte(',')
		}
		fmt.Fprintf(&containers, `"k:{\"name\":\"%s\"}":{".":{},"f:env":{".":{}`, c.Name)
		for _, e := range c.Env {
			fmt.Fprintf(&containers, `,"k:{\"name\":\"%s\"}":{".":{},"f:name":{},"f:value":{}}`, e.Name)
		}
		fmt.Fprintf(&containers,
			`},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":%d,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{},"f:protocol":{}}},`+
				`"f:resources":{".":{},"f:limits":{".":{},"f:memory":{}},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}},"f:terminationMessagePath":{},"f:terminationMessagePolicy":{}}`, c.Ports[0].ContainerPort)
	}
	spec := fmt.Sprintf(
		`{"f:metadata":{"f:annotations":{".":{}%s},"f:generateName":{},"f:labels":{".":{}%s},"f:ownerReferences":{".":{},"k:{\"uid\":\"%s\"}":{}}},"f:spec":{"f:containers":{%s},`+
			`"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:serviceAccount":{},"f:serviceAccountName":{},"f:terminationGracePeriodSeconds":{}}}`,
		&annotations, &labels, p.OwnerReferences[0].UID, &containers)
	status := fmt.Sprintf(
		`{"f:status":{"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Initialized\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},`+
			`"k:{\"type\":\"Ready\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{".":{},"k:{\"ip\":\"%s\"}":{".":{},"f:ip":{}}},"f:startTime":{}}}`, p.Status.PodIP)
	entry := func(manager, sub string, at time.Time, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
			Time:       &metav1.Time{Time: at},
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields), Subresource: sub}
	}
	return []metav1.ManagedFieldsEntry{entry("kube-controller-manager", "", created, spec),
		entry("kubelet", "status", started, status)}
}
