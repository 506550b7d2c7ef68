package access_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/serve/access"
)

func isOneOf(all ...schema.GroupResource) func(context.Context, schema.GroupResource) (bool, error) {
	return func(_ context.Context, r schema.GroupResource) (bool, error) { return slices.Contains(all, r), nil }
}

// TestUnknownWithheld checks that a right to all resources leads to an error if it cannot be determined which resources
// are withheld, and that other rights still apply (issue 37).
func TestUnknownWithheld(t *testing.T) {
	hangs := func(context.Context, schema.GroupResource) (bool, error) { return false, context.DeadlineExceeded }
	owner, ops, vera := user("larder"), user("joe", "ops"), user("vera")
	o, err := access.NewOfflineAccess(file(t, accessFile), hangs, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	rights := access.Everything{User: owner, Withheld: hangs, Others: o}
	for _, u := range []access.User{owner, ops} {
		if d, err := rights.Authorize(t.Context(), read(u, "list", "pods", "web")); err == nil || d.Allowed {
			t.Errorf("%s: %+v, %v", u.Username, d, err)
		}
		version := access.Attributes{User: u, Verb: "get", Path: "/version"}
		if d, err := rights.Authorize(t.Context(), version); err != nil || !d.Allowed {
			t.Errorf("%s: discovery: %+v, %v", u.Username, d, err)
		}
	}
	if d, err := o.Authorize(t.Context(), read(vera, "list", "vaults.example.com", "vault")); err != nil || !d.Allowed {
		t.Errorf("a named resource: %+v, %v", d, err)
	}
}

func TestEverything(t *testing.T) {
	token, err := access.NewStaticToken(access.NewToken(), "larder")
	if err != nil {
		t.Fatal(err)
	}
	own := token.User()
	sealed := isOneOf(schema.GroupResource{Group: "example.com", Resource: "vaults"})
	e := access.Everything{User: own, Withheld: sealed}
	for _, verb := range []string{"get", "list", "watch"} {
		if !allowed(t, e, read(own, verb, "pods", "")) || !allowed(t, e, read(own, verb, "widgets.example.com", "web")) {
			t.Errorf("may not %s", verb)
		}
		for _, resource := range []string{"secrets", "vaults.example.com", "*"} {
			if allowed(t, e, read(own, verb, resource, "web")) {
				t.Errorf("may %s %s", verb, resource)
			}
			if !allowed(t, access.Everything{User: own, Withheld: sealed, WithSecrets: true}, read(own, verb, resource, "web")) {
				t.Errorf("may not %s %s though it was asked for", verb, resource)
			}
		}
	}
	// The resource secrets of another API group is not withheld like the core resource.
	if !allowed(t, e, read(own, "get", "secrets.example.com", "")) {
		t.Error("may not get what has a similar name")
	}
	for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection", "impersonate", "*", "", "GET"} {
		if allowed(t, e, read(own, verb, "pods", "")) {
			t.Errorf("may %q", verb)
		}
	}
	for sub, want := range map[string]bool{
		"status": true, "scale": true, "log": false, "exec": false, "proxy": false, "portforward": false, "attach": false,
	} {
		a := read(own, "get", "pods", "web")
		a.Subresource = sub
		if allowed(t, e, a) != want {
			t.Errorf("get pods/%s: not %v", sub, want)
		}
	}
	if !allowed(t, e, access.Attributes{User: own, Verb: "get", Path: "/version"}) ||
		allowed(t, e, access.Attributes{User: own, Verb: "post", Path: "/version"}) {
		t.Error("paths")
	}
}

// TestEverythingIsForOneUser checks that a user from another authenticator has no rights, even with the name of the
// user who may read everything.
func TestEverythingIsForOneUser(t *testing.T) {
	token, err := access.NewStaticToken(access.NewToken(), "larder")
	if err != nil {
		t.Fatal(err)
	}
	e := access.Everything{User: token.User(), WithSecrets: true}
	namesake, another := token.User(), token.User()
	namesake.UID = ""
	another.Username = "jane"
	for _, u := range []access.User{namesake, another, {}, user("system:admin", "system:masters")} {
		if allowed(t, e, read(u, "get", "pods", "")) {
			t.Errorf("%+v may", u)
		}
		if allowed(t, access.Everything{}, read(u, "get", "pods", "")) {
			t.Errorf("%+v may, of nobody's", u)
		}
	}
	e.Others = fixed{Decision: access.Decision{Allowed: true}}
	if !allowed(t, e, read(another, "get", "pods", "")) {
		t.Error("the others' authorizer is not asked")
	}
	if allowed(t, e, read(token.User(), "delete", "pods", "")) {
		t.Error("the others' authorizer is asked about the user")
	}
}

func TestNothing(t *testing.T) {
	for _, u := range []access.User{jane, user("system:admin", "system:masters"), {}} {
		d, err := access.Nothing{}.Authorize(t.Context(), read(u, "get", "pods", ""))
		if err != nil || d.Allowed || !strings.Contains(d.Reason, "--offline-access") {
			t.Errorf("got %+v, %v", d, err)
		}
	}
}

const accessFile = `
apiVersion: larder.dev/v1alpha1
kind: OfflineAccess
rules:
- users: [jane, "system:serviceaccount:monitoring:agent"]
  resources: [pods, deployments.apps, apps/replicasets, nodes]
  namespaces: [web, shop]
- groups: [ops]
  resources: ["*"]
  namespaces: ["*"]
- users: [vera]
  groups: [guards]
  resources: ["*", secrets, vaults.example.com]
  namespaces: [vault]
- users: [jane]
  resources: [nodes, namespaces]
  namespaces: ["*"]
- users: [prometheus, jane]
  nonResourceURLs: [/metrics, "/larder/*"]
`

func offline(t testing.TB, text string, sealed ...schema.GroupResource) *access.OfflineAccess {
	t.Helper()
	o, err := access.NewOfflineAccess(file(t, text), isOneOf(sealed...), logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestOfflineAccess(t *testing.T) {
	o := offline(t, accessFile, schema.GroupResource{Group: "example.com", Resource: "vaults"})
	agent, joe, vera := user("system:serviceaccount:monitoring:agent"), user("joe", "ops"), user("vera")
	for i, c := range []struct {
		user      access.User
		resource  string
		namespace string
		want      bool
	}{
		{jane, "pods", "web", true}, {jane, "pods", "shop", true}, {agent, "pods", "web", true},
		{user("jane"), "deployments.apps", "web", true}, {agent, "replicasets.apps", "web", true},
		{agent, "pods", "kube-system", false}, {agent, "pods", "", false}, {agent, "configmaps", "web", false},
		{agent, "deployments", "web", false}, {agent, "pods.metrics.k8s.io", "web", false},
		{agent, "replicasets.extensions", "web", false}, {agent, "secrets", "web", false},
		{user("jane"), "nodes", "", true}, {user("jane"), "namespaces", "", true}, {user("jane"), "namespaces", "web", true},
		{agent, "nodes", "", false},
		{joe, "pods", "", true}, {joe, "pods", "any", true}, {joe, "widgets.example.com", "", true},
		{joe, "secrets", "", false}, {joe, "secrets", "web", false}, {joe, "vaults.example.com", "", false}, {joe, "*", "", false},
		{vera, "secrets", "vault", true}, {vera, "vaults.example.com", "vault", true}, {vera, "pods", "vault", true},
		{vera, "secrets", "web", false}, {vera, "secrets", "", false}, {vera, "*", "vault", false},
		{user("x", "guards"), "secrets", "vault", true},
		{user("ops"), "pods", "web", false}, {user("joe"), "pods", "web", false}, {user("jane2"), "pods", "web", false},
		{user("x", "jane"), "nodes", "", false}, {user("root", "system:masters"), "pods", "web", false},
		{access.User{}, "pods", "web", false},
	} {
		for _, verb := range []string{"get", "list", "watch"} {
			if got := allowed(t, o, read(c.user, verb, c.resource, c.namespace)); got != c.want {
				t.Errorf("case %d: %s may %s %s in %q: %v", i, c.user.Username, verb, c.resource, c.namespace, got)
			}
		}
		for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection", "*", "", "LIST"} {
			if allowed(t, o, read(c.user, verb, c.resource, c.namespace)) {
				t.Errorf("case %d: may %q", i, verb)
			}
		}
	}
	for sub, want := range map[string]bool{"status": true, "scale": true, "log": false, "exec": false, "token": false} {
		a := read(agent, "get", "pods", "web")
		a.Subresource = sub
		if allowed(t, o, a) != want {
			t.Errorf("get pods/%s: not %v", sub, want)
		}
	}
	for path, want := range map[string]bool{
		"/api": true, "/api/v1": true, "/apis": true, "/apis/apps/v1": true, "/version": true, "/openapi/v3": true,
		"/healthz": true,
		"/":        false, "/metrics": false, "/apiary": false, "/logs/x": false, "/debug/pprof": false,
		"/healthz/etcd": false,
	} {
		if allowed(t, o, access.Attributes{User: agent, Verb: "get", Path: path}) != want {
			t.Errorf("%s: not %v", path, want)
		}
		if allowed(t, o, access.Attributes{User: user("stranger"), Verb: "get", Path: path}) {
			t.Errorf("%s: may be read by who has no rule", path)
		}
	}
}

// TestOfflineAccessToPaths checks that nonResourceURLs apply only to the rule's users, and give no right to resources.
func TestOfflineAccessToPaths(t *testing.T) {
	o := offline(t, accessFile)
	prometheus := user("prometheus")
	for path, want := range map[string]bool{
		"/metrics": true, "/larder/status": true, "/larder/": true, "/version": true,
		"/metrics/x": false, "/larder": false, "/snapshot/latest": false,
	} {
		if allowed(t, o, access.Attributes{User: prometheus, Verb: "get", Path: path}) != want {
			t.Errorf("%s: not %v", path, want)
		}
		if allowed(t, o, access.Attributes{User: prometheus, Verb: "post", Path: path}) {
			t.Errorf("%s may be written", path)
		}
	}
	if allowed(t, o, access.Attributes{User: user("vera"), Verb: "get", Path: "/metrics"}) ||
		allowed(t, o, read(prometheus, "get", "pods", "web")) || !allowed(t, o, read(user("jane"), "get", "nodes", "")) {
		t.Error("the rule is for others, or for more")
	}
	rules, err := o.RulesFor(t.Context(), prometheus, "web")
	if err != nil || len(rules.Resources) > 0 || !slices.Contains(rules.NonResources[0].NonResourceURLs, "/larder/*") {
		t.Errorf("%+v, %v", rules, err)
	}
}

func TestOfflineAccessWithoutRules(t *testing.T) {
	o := offline(t, "apiVersion: larder.dev/v1alpha1\nkind: OfflineAccess\nrules: []\n")
	if allowed(t, o, read(jane, "get", "pods", "web")) {
		t.Error("allowed by no rule")
	}
}

func TestOfflineAccessIsRefused(t *testing.T) {
	const head = "apiVersion: larder.dev/v1alpha1\nkind: OfflineAccess\n"
	rule := func(fields string) string {
		return head + "rules:\n- " + strings.ReplaceAll(fields, "\n", "\n  ") + "\n"
	}
	for _, c := range []struct{ text, want string }{
		{"", "the file is empty"},
		{"# nothing\n", "the file is empty"},
		{"---\n", "must have the fields"},
		{"- a\n", "line 1, the file: it must have the fields apiVersion, kind, rules"},
		{"rules: []\n", "line 1, apiVersion: it is missing: apiVersion: larder.dev/v1alpha1"},
		{head, "line 1, rules: it is missing"},
		{head + "rules:\n", "line 3, rules: it must be a list"},
		{head + "rules: []\n---\nrules: []\n", "second document"},
		{head + "rules: []\nroles: []\n", `line 4, "roles": there is no such field`},
		{head + "rules: []\nrules: []\n", "line 4, rules: it is given twice"},
		{strings.Replace(head, "alpha1", "", 1) + "rules: []\n", `line 1, apiVersion: it is "larder.dev/v1" and must be`},
		{strings.Replace(head, "Offline", "Online", 1) + "rules: []", `line 2, kind: it is "OnlineAccess"`},
		{head + "rules: [jane]\n", "line 3, rules[0]: it must have the fields users,"},
		{head + "rules: [a: [b]\n", "line "},
		{rule("users: [a]\nresources: [pods]"), "line 4, rules[0].namespaces: it is missing"},
		{rule("users: [a]\nnamespaces: [b]"), "line 4, rules[0].resources: it is missing"},
		{rule("users: [a]\nnonResourceURLs: [metrics]"), `line 5, rules[0].nonResourceURLs[0]: "metrics" is no path`},
		{rule("users: [a]\nnonResourceURLs: ['/a*/b']"), "is no path"},
		{rule("users: [a]\nnonResourceURLs: ['*']"), "is no path"},
		{rule("users: [a]\nnonResourceURLs: []"), "line 5, rules[0].nonResourceURLs: it is empty"},
		{rule("users: [a]\nnonResourceURLs: [/x]\nresources: [pods]"), "rules[0].namespaces: it is missing"},
		{rule("resources: [pods]\nnamespaces: [b]"), "line 4, rules[0]: it has neither users nor groups"},
		{rule("users: []\nresources: [pods]\nnamespaces: [b]"), "line 4, rules[0].users: it is empty"},
		{rule("users: a\nresources: [pods]\nnamespaces: [b]"), "line 4, rules[0].users: it must be a list"},
		{
			rule("users: [a]\nverbs: [get]\nresources: [pods]\nnamespaces: [b]"),
			`line 5, rules[0]."verbs": there is no such field`,
		},
		{rule("users: [a, 7]\nresources: [pods]\nnamespaces: [b]"), "line 4, rules[0].users[1]: it must be a text"},
		{rule("users: [a, true]\nresources: [pods]\nnamespaces: [b]"), "line 4, rules[0].users[1]: it must be a text"},
		{rule("users: [&x a, *x]\nresources: [pods]\nnamespaces: [b]"), "line 4, rules[0].users[1]: it must be a text"},
		{rule("users: ['']\nresources: [pods]\nnamespaces: [b]"), "line 4, rules[0].users[0]: it is empty"},
		{rule("users: ['*']\nresources: [pods]\nnamespaces: [b]"), "system:authenticated"},
		{rule("users: ['system:anonymous']\nresources: [pods]\nnamespaces: [b]"), "is nobody here"},
		{rule("groups: ['system:unauthenticated']\nresources: [pods]\nnamespaces: [b]"), "is nobody here"},
		{rule("users: [a]\nresources: [Pods]\nnamespaces: [b]"), `line 5, rules[0].resources[0]: "Pods" is no resource`},
		{rule("users: [a]\nresources: ['*.apps']\nnamespaces: [b]"), "is no resource"},
		{rule("users: [a]\nresources: ['apps/*']\nnamespaces: [b]"), "is no resource"},
		{rule("users: [a]\nresources: [a/b/c]\nnamespaces: [b]"), "is no resource"},
		{rule("users: [a]\nresources: [v1/pods]\nnamespaces: [b]"), "has a version"},
		{rule("users: [a]\nresources: [deployments.v1.apps]\nnamespaces: [b]"), "has a version"},
		{rule("users: [a]\nresources: [core/pods]\nnamespaces: [b]"), "core group, which has no name: pods"},
		{rule("users: [a]\nresources: [pods.]\nnamespaces: [b]"), "core group, which has no name: pods"},
		{rule("users: [a]\nresources: ['']\nnamespaces: [b]"), "is no resource"},
		{rule("users: [a]\nresources: [pods.Apps]\nnamespaces: [b]"), "is no API group"},
		{rule("users: [a]\nresources: [pods]\nnamespaces: [Web]"), `line 6, rules[0].namespaces[0]: "Web" is no namespace`},
		{rule("users: [a]\nresources: [pods]\nnamespaces: ['web-*']"), "is no namespace"},
		{rule("users: [a]\nresources: [pods]\nnamespaces: ['']"), "is no namespace"},
		{rule("<<: {users: [a]}\nresources: [pods]\nnamespaces: [b]"), `"<<": there is no such field`},
	} {
		_, err := access.NewOfflineAccess(file(t, c.text), nil, logr.Discard())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q\n\tgot  %v\n\twant %s", c.text, err, c.want)
		}
	}
	// The error lists all mistakes in the file, up to ten.
	var text strings.Builder
	text.WriteString(head + "rules:\n")
	for range 20 {
		text.WriteString("- users: [a]\n")
	}
	_, err := access.NewOfflineAccess(file(t, text.String()), nil, logr.Discard())
	if err == nil || strings.Count(err.Error(), "\n") != 10 || !strings.HasSuffix(err.Error(), "and 30 more") {
		t.Errorf("got %v", err)
	}
	_, err = access.NewOfflineAccess(file(t, strings.Repeat(" ", 5<<20)), nil, logr.Discard())
	if err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("got %v", err)
	}
}

func TestOfflineAccessChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := file(t, accessFile)
		var l logs
		o, err := access.NewOfflineAccess(path, nil, l.logger())
		if err != nil {
			t.Fatal(err)
		}
		a := read(jane, "get", "pods", "web")
		for _, step := range []struct {
			text string
			want bool
		}{
			{accessFile, true},
			{strings.ReplaceAll(accessFile, "jane", "jana"), false},
			{accessFile, true},
			{accessFile[:100], true},
			{"rules: []", true},
			{"apiVersion: larder.dev/v1alpha1\nkind: OfflineAccess\nrules: []\n", false},
		} {
			write(t, path, step.text)
			time.Sleep(time.Second)
			if got := allowed(t, o, read(user("jane"), a.Verb, a.Resource, a.Namespace)); got != step.want {
				t.Errorf("%v by %q", got, step.text)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if allowed(t, o, a) {
			t.Error("allowed by a file that is gone")
		}
	})
}

func TestFallbackAuthorizer(t *testing.T) {
	yes := fixed{Decision: access.Decision{Allowed: true, Reason: "yes"}}
	no := fixed{Decision: access.Decision{Reason: "no"}}
	away := fixed{err: fmt.Errorf("dial: %w", access.ErrUnreachable)}
	broken := fixed{err: errors.New("broken")}
	a := read(jane, "get", "pods", "")
	for i, c := range []struct {
		upstream, offline access.Authorizer
		allowed, fails    bool
	}{
		{yes, no, true, false},
		{no, yes, false, false}, // a denial of the first authorizer is final
		{broken, yes, false, true},
		{away, yes, true, false},
		{away, no, false, false},
		{away, broken, false, true},
	} {
		d, err := access.FallbackAuthorizer(c.upstream, c.offline).Authorize(t.Context(), a)
		if d.Allowed != c.allowed || (err != nil) != c.fails {
			t.Errorf("case %d: got %+v, %v", i, d, err)
		}
		if err == nil && c.upstream == access.Authorizer(away) && !strings.Contains(d.Reason, "cannot be reached") {
			t.Errorf("case %d: the reason is %q", i, d.Reason)
		}
	}
}

func TestRequire(t *testing.T) {
	a := read(jane, "list", "pods", "y")
	yes := fixed{Decision: access.Decision{Allowed: true}}
	no := fixed{Decision: access.Decision{Reason: "because"}}
	if err := access.Require(t.Context(), yes, a); err != nil {
		t.Error(err)
	}
	scale := access.Attributes{User: jane, Verb: "get", Group: "apps", Resource: "deployments", Subresource: "scale", Name: "x"}
	odd := read(user("<b>&"), "get", "pods", "")
	for _, c := range []struct {
		a    access.Attributes
		want string
	}{
		{a, `pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "y": because`},
		{scale, `deployments.apps "x" is forbidden: User "jane" cannot get resource "deployments/scale" in API group "apps" at the cluster scope: because`},
		{access.Attributes{User: jane, Verb: "get", Path: "/metrics"}, `forbidden: User "jane" cannot get path "/metrics": because`},
		{odd, `pods is forbidden: User "&lt;b&gt;&amp;" cannot get resource "pods" in API group "" at the cluster scope: because`},
	} {
		err := access.Require(t.Context(), no, c.a)
		if !apierrors.IsForbidden(err) || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
	err := access.Require(t.Context(), fixed{err: errors.New("the token is token-of-jane")}, a)
	if !apierrors.IsInternalError(err) || strings.Contains(err.Error(), "token-of") {
		t.Error(err)
	}
	// An error takes precedence over a decision that allows the request.
	if err := access.Require(t.Context(), fixed{Decision: yes.Decision, err: errors.New("x")}, a); err == nil {
		t.Error("allowed though the authorizer failed")
	}
}
