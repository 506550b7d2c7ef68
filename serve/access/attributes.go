package access

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// User is the user of a request: name, UID, groups and extra values, as in a TokenReview.
type User = authenticationv1.UserInfo

const (
	groupAuthenticated   = "system:authenticated"
	groupUnauthenticated = "system:unauthenticated"
	userAnonymous        = "system:anonymous"
	credentialID         = credentialPrefix + "credential-id"
	credentialPrefix     = "authentication.kubernetes.io/"
)

// WithoutCredential returns a copy of u without the extra values that API servers take from a service-account token:
// the token's ID, and the pod and node that it is bound to (authentication.kubernetes.io/*). All tokens of one service
// account then have the same user.
func WithoutCredential(u User) User {
	u.Extra = maps.Clone(u.Extra)
	maps.DeleteFunc(u.Extra, func(key string, _ authenticationv1.ExtraValue) bool {
		return strings.HasPrefix(key, credentialPrefix)
	})
	return u
}

// Authenticator determines the user of a request. It is safe for concurrent use.
type Authenticator interface {
	// Authenticate returns the user of the request and true. The result is false if the request has no credential of
	// the authenticator's kind, or an unknown credential. It returns an error if a credential is invalid, or if the
	// check failed: then the error wraps ErrUnreachable or is an apierrors.APIStatus. Errors contain no credentials.
	Authenticate(*http.Request) (User, bool, error)
}

// Authorizer decides whether a user may make a request. It is safe for concurrent use.
type Authorizer interface {
	// Authorize returns the decision. An error means that there is no decision, and that the request must be rejected.
	Authorize(context.Context, Attributes) (Decision, error)
}

// Decision is an authorizer's decision and its reason.
type Decision struct {
	Allowed bool
	// Reason is shown to the user who makes the request. It may be empty.
	Reason string
	// Offline is true if a FallbackAuthorizer's rules for an outage of the API server made the decision.
	Offline bool
}

// Attributes describe a request to an authorizer, in the terms of API servers (k8s.io/apiserver/pkg/endpoints/request):
// the verb of a GET is get, list or watch.
type Attributes struct {
	User User
	Verb string
	// Path is the path of a non-resource request, such as /version. If Path is set, the fields below are empty.
	Path string

	Group, Version, Resource, Subresource string
	// Namespace is empty for cluster-scoped objects and for lists in all namespaces. For an object of the resource
	// namespaces it is that object's name.
	Namespace string
	// Name is empty for lists and watches of more than one object.
	Name string
	// FieldSelector and LabelSelector restrict a list or a watch; both are optional. Some authorizers of API servers
	// allow a node's agent only lists of that node's objects. It is enough to set their RawSelector.
	FieldSelector *authorizationv1.FieldSelectorAttributes
	LabelSelector *authorizationv1.LabelSelectorAttributes
}

// GroupResource returns the requested resource without its version.
func (a Attributes) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: a.Group, Resource: a.Resource}
}

// reads reports whether a is a get, list or watch of stored data. Subresources such as log, proxy and exec are not
// stored, although clients use get for some of them.
func (a Attributes) reads() bool {
	if a.Path != "" {
		return a.Verb == "get"
	}
	return slices.Contains(readVerbs, a.Verb) && slices.Contains([]string{"", "status", "scale"}, a.Subresource)
}

var readVerbs = []string{"get", "list", "watch"}

// authenticated returns the user u with the group system:authenticated added, as kube-apiserver does. It returns false
// for an anonymous user and a user without a name.
func authenticated(u User) (User, bool) {
	if u.Username == "" || u.Username == userAnonymous || slices.Contains(u.Groups, groupUnauthenticated) {
		return User{}, false
	}
	if !slices.Contains(u.Groups, groupAuthenticated) {
		u.Groups = append(slices.Clone(u.Groups), groupAuthenticated)
	}
	return u, true
}
