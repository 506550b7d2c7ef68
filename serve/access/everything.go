package access

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// secrets are the resource that nobody may read by a "*".
var secrets = schema.GroupResource{Resource: "secrets"}

// Everything is an Authorizer that lets one user read all there is. It is for who may read the store's file anyway: the
// user of the kubeconfig that the process itself has written, on loopback.
type Everything struct {
	// User is that of StaticToken.User. The name and the UID must be equal.
	User User
	// WithSecrets lets the user read Secrets too, and Withheld resources.
	WithSecrets bool
	// Withheld reports whether a resource is withheld like Secrets (serve.Withheld). Default: none is.
	Withheld func(context.Context, schema.GroupResource) (bool, error)
	// Others decides about other users. Default: they may do nothing.
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

// isWithheld reports whether rights to all resources do not cover r. withheld may be nil.
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

// Nothing is an Authorizer that lets nobody do anything: what is left if nothing says who may.
type Nothing struct{}

// Authorize implements Authorizer.
func (Nothing) Authorize(context.Context, Attributes) (Decision, error) {
	return Decision{Reason: "Larder has neither an API server to ask who may read here, nor a file that says so; " +
		"give it --offline-access"}, nil
}

// Rules are what a user may do in a namespace.
type Rules struct {
	Resources    []authorizationv1.ResourceRule
	NonResources []authorizationv1.NonResourceRule
	// Incomplete is true if the user may have more rights.
	Incomplete bool
	// Caveat is what the rules cannot say, or why they are incomplete.
	Caveat string
}

// RuleLister is an Authorizer that can list a user's rights. Upstream is none: there is no review for that.
type RuleLister interface {
	RulesFor(ctx context.Context, user User, namespace string) (Rules, error)
}

// rulesFor returns what is known of a user's rights.
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
