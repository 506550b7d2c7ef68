package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"go.yaml.in/yaml/v3"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

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

const (
	accessAPIVersion = "larder.dev/v1alpha1"
	accessKind       = "OfflineAccess"
	maxAccessErrors  = 10
)

// parseAccess parses an OfflineAccess file strictly. Its error lists all mistakes with their lines and fields.
func parseAccess(data []byte) (*accessRules, error) {
	documents := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	switch err := documents.Decode(&first); {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("the file is empty; it begins with apiVersion: %s and kind: %s", accessAPIVersion, accessKind)
	case err != nil:
		return nil, err
	case len(first.Content) != 1:
		return nil, errors.New("it has no document")
	}
	if err := documents.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has a second document, or does not end well; there must be one")
	}
	p := &accessParser{rules: &accessRules{users: map[string][]*accessRule{}, groups: map[string][]*accessRule{}}}
	p.file(first.Content[0])
	if len(p.errs) > maxAccessErrors {
		p.errs = append(p.errs[:maxAccessErrors], fmt.Errorf("and %d more", len(p.errs)-maxAccessErrors))
	}
	if err := errors.Join(p.errs...); err != nil {
		return nil, err
	}
	return p.rules, nil
}

type accessParser struct {
	rules *accessRules
	errs  []error
}

func (p *accessParser) fail(n *yaml.Node, field, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("line %d, %s: %s", n.Line, field, fmt.Sprintf(format, args...)))
}

func (p *accessParser) file(n *yaml.Node) {
	fields := p.fields(n, "the file", "", "apiVersion", "kind", "rules")
	if fields == nil {
		return
	}
	p.constant(n, fields["apiVersion"], "apiVersion", accessAPIVersion)
	p.constant(n, fields["kind"], "kind", accessKind)
	rules := fields["rules"]
	switch {
	case rules == nil:
		p.fail(n, "rules", "it is missing; rules: [] lets nobody in")
	case rules.Kind != yaml.SequenceNode:
		p.fail(rules, "rules", "it must be a list")
	default:
		for i, r := range rules.Content {
			p.rule(r, i)
		}
	}
}

func (p *accessParser) constant(in, n *yaml.Node, field, want string) {
	if n == nil {
		p.fail(in, field, "it is missing: %s: %s", field, want)
	} else if got, ok := p.text(n, field); ok && got != want {
		p.fail(n, field, "it is %q and must be %s", got, want)
	}
}

func (p *accessParser) rule(n *yaml.Node, number int) {
	at := fmt.Sprintf("rules[%d]", number)
	fields := p.fields(n, at, at+".", "users", "groups", "resources", "namespaces", "nonResourceURLs")
	if fields == nil {
		return
	}
	r := &accessRule{number: number}
	if urls := fields["nonResourceURLs"]; urls != nil {
		p.list(n, urls, at+".nonResourceURLs", func(v *yaml.Node, field, s string) {
			if path := strings.TrimSuffix(s, "*"); !strings.HasPrefix(path, "/") || strings.Contains(path, "*") {
				p.fail(v, field, "%q is no path: it begins with a slash, and has a star at its end alone", s)
			}
			r.paths = append(r.paths, s)
		})
	}
	if len(r.paths) == 0 || fields["resources"] != nil || fields["namespaces"] != nil {
		p.resources(n, fields, at, r)
	}
	if fields["users"] == nil && fields["groups"] == nil {
		p.fail(n, at, "it has neither users nor groups, so it is for nobody")
		return
	}
	p.subjects(n, fields["users"], at+".users", r, p.rules.users)
	p.subjects(n, fields["groups"], at+".groups", r, p.rules.groups)
}

func (p *accessParser) resources(n *yaml.Node, fields map[string]*yaml.Node, at string, r *accessRule) {
	p.list(n, fields["resources"], at+".resources", func(v *yaml.Node, field, s string) {
		resource, problem := parseResource(s)
		switch {
		case s == "*":
			r.allResources = true
		case problem != "":
			p.fail(v, field, "%q %s", s, problem)
		default:
			r.resources = append(r.resources, resource)
		}
	})
	p.list(n, fields["namespaces"], at+".namespaces", func(v *yaml.Node, field, s string) {
		if s == "*" {
			r.allNamespaces = true
		} else if problems := validation.ValidateNamespaceName(s, false); len(problems) > 0 {
			p.fail(v, field, "%q is no namespace: %s", s, problems[0])
		} else {
			r.namespaces = append(r.namespaces, s)
		}
	})
}

func (p *accessParser) subjects(in, n *yaml.Node, field string, r *accessRule, to map[string][]*accessRule) {
	if n == nil {
		return
	}
	p.list(in, n, field, func(v *yaml.Node, field, s string) {
		switch {
		case s == "":
			p.fail(v, field, "it is empty")
		case s == "*":
			p.fail(v, field, `"*" is not supported; all who are known are in the group %s`, groupAuthenticated)
		case s == userAnonymous, s == groupUnauthenticated:
			p.fail(v, field, "%s is nobody here: everybody has to say who they are", s)
		case !slices.Contains(to[s], r):
			to[s] = append(to[s], r)
		}
	})
}

// fields returns the values of a YAML mapping; nil if n is none. Unknown and duplicate names are mistakes.
func (p *accessParser) fields(n *yaml.Node, field, prefix string, known ...string) map[string]*yaml.Node {
	if n.Kind != yaml.MappingNode {
		p.fail(n, field, "it must have the fields %s", strings.Join(known, ", "))
		return nil
	}
	fields := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		switch {
		case name.Kind != yaml.ScalarNode || !slices.Contains(known, name.Value):
			p.fail(name, prefix+strconv.Quote(name.Value), "there is no such field; there are %s", strings.Join(known, ", "))
		case fields[name.Value] != nil:
			p.fail(name, prefix+name.Value, "it is given twice")
		default:
			fields[name.Value] = n.Content[i+1]
		}
	}
	return fields
}

func (p *accessParser) list(in, n *yaml.Node, field string, each func(v *yaml.Node, field, s string)) {
	switch {
	case n == nil:
		p.fail(in, field, "it is missing")
		return
	case n.Kind != yaml.SequenceNode:
		p.fail(n, field, "it must be a list, as in [a, b]")
		return
	case len(n.Content) == 0:
		p.fail(n, field, "it is empty")
	}
	for i, v := range n.Content {
		at := fmt.Sprintf("%s[%d]", field, i)
		if s, ok := p.text(v, at); ok {
			each(v, at, s)
		}
	}
}

// text returns the value of a YAML string. Aliases, and unquoted numbers and booleans, are mistakes.
func (p *accessParser) text(n *yaml.Node, field string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		p.fail(n, field, "it must be a text; quote it if it looks like a number or a boolean")
		return "", false
	}
	return n.Value, true
}

// versionLike matches versions of API groups, such as v1, which must not be part of a rule's resource.
var versionLike = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)

// parseResource parses resource, resource.group or group/resource. If s is invalid it returns the reason.
func parseResource(s string) (schema.GroupResource, string) {
	group, resource, slash := strings.Cut(s, "/")
	if !slash {
		resource, group, _ = strings.Cut(s, ".")
	}
	r := schema.GroupResource{Group: group, Resource: resource}
	first, _, _ := strings.Cut(group, ".")
	switch {
	case len(utilvalidation.IsDNS1035Label(resource)) > 0:
		return r, "is no resource: it has a plural name in lower case, as in pods, deployments.apps or apps/deployments"
	case versionLike.MatchString(first):
		return r, "has a version, which counts for nothing here: leave it out"
	case slash && (group == "core" || group == ""), strings.HasSuffix(s, "."), group == "core":
		return r, fmt.Sprintf("is of the core group, which has no name: %s", resource)
	case group != "" && len(utilvalidation.IsDNS1123Subdomain(group)) > 0:
		return r, fmt.Sprintf("names %q, which is no API group", group)
	}
	return r, ""
}
