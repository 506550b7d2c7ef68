package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pods returns the pods of the chart's workloads, by component. It creates them from the pod templates, because the
// tests' kube-apiserver has no controllers.
func (r *release) pods(t *testing.T) map[string]*corev1.Pod {
	t.Helper()
	all := map[string]*corev1.Pod{}
	for _, u := range r.objects {
		var template corev1.PodTemplateSpec
		switch u.GetKind() {
		case "DaemonSet":
			template = as[appsv1.DaemonSet](t, u).Spec.Template
		case "StatefulSet":
			set := as[appsv1.StatefulSet](t, u)
			template = set.Spec.Template
			for _, claim := range set.Spec.VolumeClaimTemplates {
				template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: claim.Name,
					VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
						ClaimName: claim.Name + "-" + set.Name + "-0"}}})
			}
		case "CronJob":
			template = as[batchv1.CronJob](t, u).Spec.JobTemplate.Spec.Template
		default:
			continue
		}
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Name, pod.Namespace = u.GetName()+"-0", r.namespace
		all[template.Labels["app.kubernetes.io/component"]] = pod
	}
	return all
}

// TestAdmission checks that kube-apiserver accepts all objects of the chart. Their pods must meet the restricted level
// of Pod Security, except pods with a hostPath, which need a privileged namespace.
func TestAdmission(t *testing.T) {
	w := newWorld(t)
	for _, level := range []string{"restricted", "baseline", "privileged"} {
		w.namespace(t, "adm-"+level, level)
	}
	for _, ns := range []string{"shop", "web"} {
		w.namespace(t, ns, "restricted")
	}
	w.definePodMonitors(t)
	created := 0
	for _, name := range slices.Sorted(maps.Keys(variants)) {
		for _, level := range []string{"restricted", "baseline", "privileged"} {
			r := render(t, "adm-"+level, variants[name])
			if err := w.tryApply(t, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, r.objects...); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for component, pod := range r.pods(t) {
				created++
				err := w.admit(t, pod)
				if hostPath(pod) && level != "privileged" {
					if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "PodSecurity") ||
						!strings.Contains(err.Error(), "hostPath") {
						t.Errorf("%s: a pod with a hostPath in a namespace that is %s: %v", name, level, err)
					}
				} else if err != nil {
					t.Errorf("%s: the pod of %s in a namespace that is %s: %v", name, component, level, err)
				}
			}
		}
	}
	if created < 30 {
		t.Errorf("only %d pods were created", created)
	}
}

// admit creates a pod as a dry run, and returns the API server's error.
func (w *world) admit(t *testing.T, pod *corev1.Pod) error {
	t.Helper()
	_, err := w.client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	return err
}

func hostPath(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil })
}

// TestNodePods checks that node pods tolerate all taints unless the values say otherwise, and that an init container
// gives them ownership of the whole store directory.
func TestNodePods(t *testing.T) {
	pod := render(t, "larder", "node: {enabled: true}").pods(t)["node"].Spec
	if want := []corev1.Toleration{{Operator: corev1.TolerationOpExists}}; !slices.Equal(pod.Tolerations, want) {
		t.Errorf("the pods tolerate %+v", pod.Tolerations)
	}
	owner := fmt.Sprintf("%d:%d", *pod.SecurityContext.RunAsUser, *pod.SecurityContext.RunAsGroup)
	store := pod.InitContainers[0].VolumeMounts[0].MountPath
	if got, want := pod.InitContainers[0].Command,
		[]string{"/usr/local/bin/larder", "chown", owner, store}; !slices.Equal(got, want) {
		t.Errorf("the init container runs %q, want %q", got, want)
	}
	pod = render(t, "larder", variants["everything"]).pods(t)["node"].Spec
	if len(pod.Tolerations) != 0 || pod.NodeSelector["edge"] != "true" ||
		pod.SecurityContext.SELinuxOptions.Type != "spc_t" {
		t.Errorf("the values do not say what the pods are: %+v", pod)
	}
}
