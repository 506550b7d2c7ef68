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

// User is who asks: a name, a UID, groups and extra values, as API servers have them.
type User = authenticationv1.UserInfo

// Names that Kubernetes gives a meaning; see k8s.io/apiserver/pkg/authentication/user.
const (
	groupAuthenticated   = "system:authenticated"
	groupUnauthenticated = "system:unauthenticated"
	userAnonymous        = "system:anonymous"
	credentialID         = credentialPrefix + "credential-id"
	credentialPrefix     = "authentication.kubernetes.io/"
)

// WithoutCredential returns u without the extra values that API servers take from a service-account token: its id, and
// the pod and the node that it is bound to (authentication.kubernetes.io/*). All tokens of one service account are the
// same user then. It does not change u.
func WithoutCredential(u User) User {
	u.Extra = maps.Clone(u.Extra)
	maps.DeleteFunc(u.Extra, func(key string, _ authenticationv1.ExtraValue) bool {
		return strings.HasPrefix(key, credentialPrefix)
	})
	return u
}

// Authenticator finds out who sends a request. It may be called concurrently.
type Authenticator interface {
	// Authenticate returns the user and true; false if the request has no credential of the authenticator's kind, or
	// one that it does not know; or an error: of a credential that is refused, or, if it wraps ErrUnreachable or is an
	// apierrors.APIStatus, of a question that could not be answered. Errors have no credentials in them.
	Authenticate(*http.Request) (User, bool, error)
}

// Authorizer decides whether somebody may do something. It may be called concurrently.
type Authorizer interface {
	// Authorize returns the decision. An error means that there is none: what was asked for must not be done.
	Authorize(context.Context, Attributes) (Decision, error)
}

// Decision is whether somebody may, and why.
type Decision struct {
	Allowed bool
	// Reason is for who reads the answer: no more than that user may know. It may be empty.
	Reason string
	// Offline is set by a FallbackAuthorizer if the decision is by its rules for an outage.
	Offline bool
}

// Attributes are what somebody wants to do. They are named as API servers name them
// (k8s.io/apiserver/pkg/endpoints/request): the verb of GET is get, list or watch.
type Attributes struct {
	User User
	Verb string
	// Path is the path of a request that is for no resource, such as /version. If it is set, the fields below are not.
	Path string

	Group, Version, Resource, Subresource string
	// Namespace is empty for objects without one and for lists in all namespaces. A Namespace is in itself.
	Namespace string
	// Name is empty for lists and watches of more than one object.
	Name string
	// FieldSelector and LabelSelector narrow a list or a watch; optional. Some authorizers of API servers allow lists of
	// one node's objects only. RawSelector is enough.
	FieldSelector *authorizationv1.FieldSelectorAttributes
	LabelSelector *authorizationv1.LabelSelectorAttributes
}

// GroupResource is the resource without its version.
func (a Attributes) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: a.Group, Resource: a.Resource}
}

// reads reports whether a is about reading what is stored: there are no logs here, no proxies and no shells, which are
// subresources that some clients get.
func (a Attributes) reads() bool {
	if a.Path != "" {
		return a.Verb == "get"
	}
	return slices.Contains(readVerbs, a.Verb) && slices.Contains([]string{"", "status", "scale"}, a.Subresource)
}

var readVerbs = []string{"get", "list", "watch"}

// authenticated returns the user as one of system:authenticated, as kube-apiserver does; false if it is nobody: has no
// name, or says itself that it is anonymous.
func authenticated(u User) (User, bool) {
	if u.Username == "" || u.Username == userAnonymous || slices.Contains(u.Groups, groupUnauthenticated) {
		return User{}, false
	}
	if !slices.Contains(u.Groups, groupAuthenticated) {
		u.Groups = append(slices.Clone(u.Groups), groupAuthenticated)
	}
	return u, true
}
