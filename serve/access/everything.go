package access

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// secrets is the resource Secrets, which a right to all resources ("*") does not include.
var secrets = schema.GroupResource{Resource: "secrets"}

// Everything is an Authorizer that lets one user read everything: the user of the kubeconfig that the process has
// written for use on loopback. That user can read the store's file anyway.
type Everything struct {
	// User is the user with all rights. Its name and UID must be those of the StaticToken's user.
	User User
	// WithSecrets also allows the user to read Secrets and withheld resources.
	WithSecrets bool
	// Withheld reports whether a right to all resources excludes a resource, as it excludes Secrets (serve.Withheld).
	// Default: no other resource is excluded.
	Withheld func(context.Context, schema.GroupResource) (bool, error)
	// Others decides about all other users. Default: Nothing.
	Others Authorizer
}

// Authorize implements Authorizer.
func (e Everything) Authorize(ctx context.Context, a Attributes) (Decision, error) {
	switch {
	case !e.is(a.User):
		return e.others().Authorize(ctx, a)
	case !a.reads():
		return Decision{Reason: reasonReadOnly}, nil
	case !e.WithSecrets && a.Path == "":
		withheld, err := isWithheld(ctx, a.GroupResource(), e.Withheld)
		if err != nil {
			return Decision{}, err
		}
		if withheld || a.Resource == "*" {
			return Decision{Reason: "Secrets and sealed resources are served with --serve-secrets only"}, nil
		}
	}
	return Decision{Allowed: true, Reason: "it is the user of Larder's own kubeconfig"}, nil
}

// RulesFor implements RuleLister.
func (e Everything) RulesFor(ctx context.Context, u User, namespace string) (Rules, error) {
	if !e.is(u) {
		return rulesFor(ctx, e.others(), u, namespace)
	}
	rules := Rules{
		Resources:    []authorizationv1.ResourceRule{{Verbs: readVerbs, APIGroups: []string{"*"}, Resources: []string{"*"}}},
		NonResources: []authorizationv1.NonResourceRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"*"}}},
	}
	if !e.WithSecrets {
		rules.Caveat = `"*" is without Secrets and sealed resources`
	}
	return rules, nil
}

func (e Everything) is(u User) bool {
	return e.User.Username != "" && u.Username == e.User.Username && u.UID == e.User.UID
}

func isWithheld(
	ctx context.Context, r schema.GroupResource, withheld func(context.Context, schema.GroupResource) (bool, error),
) (bool, error) {
	if r == secrets || withheld == nil {
		return r == secrets, nil
	}
	return withheld(ctx, r)
}

func (e Everything) others() Authorizer {
	if e.Others == nil {
		return Nothing{}
	}
	return e.Others
}

const reasonReadOnly = "Larder serves get, list and watch only; larder sync --serve --forward sends the rest to the " +
	"API server"

// Nothing is an Authorizer that denies everything. It is for servers without API server and OfflineAccess file.
type Nothing struct{}

// Authorize implements Authorizer.
func (Nothing) Authorize(context.Context, Attributes) (Decision, error) {
	return Decision{Reason: "Larder has neither an API server to ask who may read here, nor a file that says so; " +
		"give it --offline-access"}, nil
}

// Rules are the rights of a user in a namespace, as a list of rules.
type Rules struct {
	Resources    []authorizationv1.ResourceRule
	NonResources []authorizationv1.NonResourceRule
	// Incomplete is true if the user may have further rights.
	Incomplete bool
	// Caveat explains why the list is incomplete, or names a restriction that the rules cannot express.
	Caveat string
}

// RuleLister is an Authorizer that can list a user's rights. Upstream is no RuleLister: an API server has no review
// that lists another user's rights.
type RuleLister interface {
	RulesFor(ctx context.Context, user User, namespace string) (Rules, error)
}

func rulesFor(ctx context.Context, a Authorizer, u User, namespace string) (Rules, error) {
	if lister, ok := a.(RuleLister); ok {
		return lister.RulesFor(ctx, u, namespace)
	}
	if _, none := a.(Nothing); none {
		return Rules{}, nil
	}
	return Rules{Incomplete: true, Caveat: fmt.Sprintf(
		"the API server decides about each request, and cannot list what %q may do", u.Username)}, nil
}
