package deploy

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

type right struct{ verb, group, resource, name, namespace string }

func (r *release) rights(t *testing.T, account string) (all []right) {
	t.Helper()
	for _, u := range r.objects {
		if u.GetKind() != "ClusterRoleBinding" && u.GetKind() != "RoleBinding" {
			continue
		}
		b := as[rbacv1.RoleBinding](t, u)
		if len(b.Subjects) != 1 || b.Subjects[0].Kind != "ServiceAccount" || b.Subjects[0].Namespace != r.namespace {
			t.Fatalf("%s is for %v", b.Name, b.Subjects)
		}
		if b.Subjects[0].Name != account {
			continue
		}
		if b.RoleRef.Name == "system:auth-delegator" {
			all = append(all, right{"create", "authentication.k8s.io", "tokenreviews", "", ""},
				right{"create", "authorization.k8s.io", "subjectaccessreviews", "", ""})
			continue
		}
		for _, o := range r.objects {
			if o.GetKind() == b.RoleRef.Kind && o.GetName() == b.RoleRef.Name && o.GetNamespace() == b.Namespace {
				all = append(all, writtenOut(as[rbacv1.Role](t, o).Rules, b.Namespace)...)
			}
		}
	}
	return sorted(all)
}

func writtenOut(rules []rbacv1.PolicyRule, namespace string) (all []right) {
	for _, rule := range rules {
		for _, verb := range rule.Verbs {
			for _, url := range rule.NonResourceURLs {
				all = append(all, right{verb: verb, name: url})
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					names := rule.ResourceNames
					if len(names) == 0 {
						names = []string{""}
					}
					for _, name := range names {
						all = append(all, right{verb, group, resource, name, namespace})
					}
				}
			}
		}
	}
	return all
}

func sorted(all []right) []right {
	slices.SortFunc(all, func(a, b right) int {
		return strings.Compare(strings.Join([]string{a.namespace, a.group, a.resource, a.name, a.verb}, "\x00"),
			strings.Join([]string{b.namespace, b.group, b.resource, b.name, b.verb}, "\x00"))
	})
	return all
}

func reads(namespace string, verbs []string, names ...string) (all []right) {
	for _, name := range names {
		resource, group, _ := strings.Cut(name, ".")
		for _, verb := range verbs {
			all = append(all, right{verb, group, resource, "", namespace})
		}
	}
	return all
}

// TestRights checks that each account has exactly the permissions that it needs, and no others.
func TestRights(t *testing.T) {
	both := []string{"list", "watch"}
	cluster := right{"get", "", "namespaces", "kube-system", ""}
	reviews := []right{{"create", "authentication.k8s.io", "tokenreviews", "", ""},
		{"create", "authorization.k8s.io", "subjectaccessreviews", "", ""}}
	standard := []string{"pods", "nodes", "services", "deployments.apps"}
	lease := func(ns string) []right {
		return []right{{"create", "coordination.k8s.io", "leases", "", ns},
			{"get", "coordination.k8s.io", "leases", "larder-mirror", ns},
			{"update", "coordination.k8s.io", "leases", "larder-mirror", ns}}
	}
	widgets := right{"get", "apiextensions.k8s.io", "customresourcedefinitions", "widgets.example.com", ""}
	all := []string{"pods", "secrets", "deployments.apps", "ingresses.networking.k8s.io", "widgets.example.com"}
	for _, tt := range []struct {
		variant, account string
		want             []right
	}{
		{"node", "larder-node", append(reads("", both, standard...), cluster)},
		{"mirror", "larder-mirror", append(append(reads("", both, standard...), cluster), reviews...)},
		{"snapshots", "larder-snapshots", append(reads("", both[:1], standard...), cluster)},
		{"everything", "larder-node", slices.Concat(reads("", both, all...), reviews,
			[]right{cluster, widgets, {verb: "get", name: "/snapshot/*"}})},
		{"everything", "larder-mirror", slices.Concat(reads("", both, all...), reviews, lease("larder"),
			[]right{cluster, widgets})},
		{"everything", "larder-snapshots", append(reads("", both[:1], all...), cluster, widgets)},
		{"everything", "larder-mirror-metrics", []right{{verb: "get", name: "/metrics"}}},
		{"everything", "larder-node-metrics", []right{{verb: "get", name: "/metrics"}}},
		{"a part", "larder-mirror", slices.Concat(reviews, []right{cluster}, reads("", both, "nodes"),
			reads("shop", both, "configmaps", "secrets"), reads("web", both, "configmaps", "services"))},
	} {
		got := render(t, "larder", variants[tt.variant]).rights(t, tt.account)
		if want := sorted(slices.Clone(tt.want)); !slices.Equal(got, want) {
			t.Errorf("%s: %s may\n%v, want\n%v", tt.variant, tt.account, got, want)
		}
	}
}

// TestSecretsAreLeftOut checks that without recipients the CronJob may not list Secrets, because it would not save
// them.
func TestSecretsAreLeftOut(t *testing.T) {
	r := render(t, "larder", "{snapshots: {enabled: true}, resources: [{name: pods}, {name: secrets}]}")
	for _, may := range r.rights(t, "larder-snapshots") {
		if may.resource == "secrets" {
			t.Errorf("it may %s them", may.verb)
		}
	}
	if strings.Contains(r.text, "- secrets") {
		t.Error(r.text)
	}
}
