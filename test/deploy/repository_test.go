package deploy

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestRecipientsReplacePods checks that a change of the recipients replaces the mirror's pods, because a mirror reads
// its recipients only at its start.
func TestRecipientsReplacePods(t *testing.T) {
	seen := map[string]string{}
	for _, recipients := range []string{"[]", "[age1a]", "[age1b]", "[age1a, age1b]"} {
		pod := render(t, "larder", "mirror: {enabled: true, snapshotTo: s3://b/p/}\n"+
			"repository: {recipients: "+recipients+"}").pods(t)["mirror"]
		sum := pod.Annotations["checksum/sync"]
		if other, ok := seen[sum]; ok || sum == "" {
			t.Errorf("with %s pods are those with %s", recipients, other)
		}
		seen[sum] = recipients
	}
}

// TestNodeCredentials checks that nodes get the credentials of the snapshot repository only if their seed is there, and
// never the signing key.
func TestNodeCredentials(t *testing.T) {
	for url, want := range map[string]bool{
		"s3://bucket/production/": true, "oci://registry.example.com/state": true,
		"https://larder-mirror.larder.svc/snapshot/": false, `""`: false,
	} {
		pod := render(t, "larder", "node: {enabled: true, seed: {url: "+url+"}}\n"+
			"repository: {credentialsSecret: s3, signKeySecret: sign}").pods(t)["node"].Spec
		c := pod.Containers[0]
		env := len(c.EnvFrom) == 1 && c.EnvFrom[0].SecretRef.Name == "s3"
		config := slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == "DOCKER_CONFIG" })
		mount := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "credentials" })
		volume := slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "credentials" })
		for _, has := range []bool{env, config, mount, volume} {
			if has != want {
				t.Errorf("%s: variables %t, DOCKER_CONFIG %t, mount %t, volume %t, want %t", url, env, config, mount, volume, want)
			}
		}
		if slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "sign-key" }) {
			t.Errorf("%s: nodes have the key that signs", url)
		}
	}
}

// TestSeedsFromARegistry checks that nodes start from a snapshot that a job pushed to a registry with a password.
func TestSeedsFromARegistry(t *testing.T) {
	w := newWorld(t)
	w.namespace(t, "fetch", "restricted")
	w.workload(t)
	oci, config := ociRegistry(t)
	w.secret(t, "fetch", "docker", map[string]string{"config.json": config})
	release := render(t, "fetch", `
resources: [{name: pods}, {name: nodes}]
node: {enabled: true, hostPath: '', seed: {url: "oci://`+oci+`/state"}}
snapshots: {enabled: true, to: "oci://`+oci+`/state"}
repository: {credentialsSecret: docker}`)
	w.apply(t, release.objects...)
	w.sandbox(t, release.pods(t)["snapshots"], t.TempDir(), nil).runToEnd(t)
	node := w.sandbox(t, release.pods(t)["node"], t.TempDir(), nil).run(t)
	node.ready(t, 2)
	eventually(t, "both resources begin with the snapshot", func() string {
		if text := node.text(t); strings.Count(text, "begun with oci://") != 2 {
			return text
		}
		return ""
	})
	node.stop(t)
	w.remove(t, release.objects...)
}
