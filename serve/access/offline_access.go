package access

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/serve/access/internal/reload"
)

// OfflineAccess authorizes by the rules of a file while no API server can be asked. The file is YAML:
//
//	apiVersion: larder.dev/v1alpha1
//	kind: OfflineAccess
//	rules:
//	- users: [jane, "system:serviceaccount:monitoring:agent"]
//	  groups: [operators]
//	  resources: ["*", secrets]
//	  namespaces: [web, shop]
//	- groups: ["system:serviceaccounts:kube-system"]
//	  resources: [nodes, deployments.apps, apps/replicasets]
//	  namespaces: ["*"]
//	- users: ["system:serviceaccount:monitoring:prometheus"]
//	  nonResourceURLs: [/metrics]
//
// Each rule allows its users, and the members of its groups, to get, list and watch its resources in its namespaces. No
// rule can deny. A resource is a plural name, with its group after a dot or before a slash. The resource "*" means all
// resources except Secrets and sealed resources, which must be named. The namespace "*" means all namespaces and
// cluster-scoped objects. A path in nonResourceURLs may end with a star, which matches any suffix. Every user with a
// rule may read discovery. No rule applies to subresources other than status and scale.
//
// A changed file takes effect within a second. If the file is invalid or missing, the previous rules stay in effect,
// and an error is logged.
type OfflineAccess struct {
	rules func() *accessRules
	// withheld reports the resources that the rule "*" excludes; may be nil.
	withheld func(context.Context, schema.GroupResource) (bool, error)
}

// NewOfflineAccess reads the file of rules. withheld reports which resources, besides Secrets, the resource "*"
// excludes (serve.Withheld); nil means no other resources. The error has the line and the field of each mistake in the
// file.
func NewOfflineAccess(
	path string, withheld func(context.Context, schema.GroupResource) (bool, error), log logr.Logger,
) (*OfflineAccess, error) {
	parse := func(contents [][]byte) (*accessRules, error) { return parseAccess(contents[0]) }
	source, err := reload.New("offline access", log, parse, path)
	if err != nil {
		return nil, fmt.Errorf("offline access: %w", err)
	}
	return &OfflineAccess{rules: source.Get, withheld: withheld}, nil
}

type accessRules struct {
	users, groups map[string][]*accessRule
}

type accessRule struct {
	number        int
	resources     []schema.GroupResource
	allResources  bool
	namespaces    []string
	allNamespaces bool
	paths         []string
}

// of returns the rules that apply to a user or to one of the user's groups. A rule may occur twice.
func (r *accessRules) of(u User) []*accessRule {
	rules := slices.Clone(r.users[u.Username])
	for _, g := range u.Groups {
		rules = append(rules, r.groups[g]...)
	}
	return rules
}

func (r *accessRule) has(namespace string) bool {
	return r.allNamespaces || namespace != "" && slices.Contains(r.namespaces, namespace)
}

func (r *accessRule) gets(path string) bool {
	return slices.ContainsFunc(r.paths, func(p string) bool {
		prefix, all := strings.CutSuffix(p, "*")
		return p == path || all && strings.HasPrefix(path, prefix)
	})
}

func (r *accessRule) covers(
	ctx context.Context, resource schema.GroupResource, withheld func(context.Context, schema.GroupResource) (bool, error),
) (bool, error) {
	if slices.Contains(r.resources, resource) {
		return true, nil
	}
	if !r.allResources || resource.Resource == "*" { // a client asks for all resources
		return false, nil
	}
	kept, err := isWithheld(ctx, resource, withheld)
	return !kept && err == nil, err
}

// discovery has the non-resource paths that every user with a rule may get. A final slash includes all paths below.
var discovery = []string{
	"/api", "/api/", "/apis", "/apis/", "/openapi", "/openapi/", "/version", "/version/", "/healthz", "/livez", "/readyz",
}

// Authorize implements Authorizer.
func (o *OfflineAccess) Authorize(ctx context.Context, a Attributes) (Decision, error) {
	if !a.reads() {
		return Decision{Reason: reasonReadOnly}, nil
	}
	rules := o.rules().of(a.User)
	if len(rules) == 0 {
		return Decision{Reason: "no rule of Larder's offline access is for the user"}, nil
	}
	if a.Path != "" {
		for _, p := range discovery {
			if a.Path == p || strings.HasSuffix(p, "/") && strings.HasPrefix(a.Path, p) {
				return Decision{Allowed: true, Reason: "offline access lets its users read discovery"}, nil
			}
		}
	}
	var unknown error
	for _, r := range rules {
		ok := a.Path != "" && r.gets(a.Path)
		if a.Path == "" && r.has(a.Namespace) {
			var err error
			if ok, err = r.covers(ctx, a.GroupResource(), o.withheld); err != nil {
				unknown = err
			}
		}
		if ok {
			return Decision{Allowed: true, Reason: fmt.Sprintf("rules[%d] of offline access allows it", r.number)}, nil
		}
	}
	return Decision{Reason: "no rule of Larder's offline access for the user allows it"}, unknown
}

// RulesFor implements RuleLister.
func (o *OfflineAccess) RulesFor(_ context.Context, u User, namespace string) (Rules, error) {
	var list Rules
	all := o.rules().of(u)
	if len(all) == 0 {
		return list, nil
	}
	get := authorizationv1.NonResourceRule{Verbs: []string{"get"}}
	for i, r := range all {
		if slices.Contains(all[:i], r) {
			continue
		}
		get.NonResourceURLs = append(get.NonResourceURLs, r.paths...)
		if !r.has(namespace) {
			continue
		}
		if r.allResources {
			list.Caveat = `"*" is without Secrets and sealed resources`
			list.add("*", "*")
		}
		for _, res := range r.resources {
			list.add(res.Group, res.Resource)
		}
	}
	for _, p := range discovery {
		if strings.HasSuffix(p, "/") {
			p += "*"
		}
		get.NonResourceURLs = append(get.NonResourceURLs, p)
	}
	list.NonResources = []authorizationv1.NonResourceRule{get}
	return list, nil
}

func (r *Rules) add(group, resource string) {
	r.Resources = append(r.Resources, authorizationv1.ResourceRule{
		Verbs: readVerbs, APIGroups: []string{group}, Resources: []string{resource},
	})
}
