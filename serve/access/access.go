package access

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Require returns nil if the authorizer allows the request a, and otherwise an apierrors.APIStatus for the client. A
// denial is a 403 with kube-apiserver's message and the authorizer's reason. If the API server that decides is
// unreachable, the error is a 503, which makes clients retry (kube-apiserver returns 500 for a failed webhook). Any
// other APIStatus of the authorizer is returned unchanged. Other errors become 504 if a context has ended, and
// otherwise 500.
func Require(ctx context.Context, authorizer Authorizer, a Attributes) error {
	_, err := Decide(ctx, authorizer, a)
	return err
}

// Decide returns the authorizer's decision, and Require's error. A Decision with an error allows nothing.
func Decide(ctx context.Context, authorizer Authorizer, a Attributes) (Decision, error) {
	decision, err := authorizer.Authorize(ctx, a)
	switch {
	case err != nil:
		return Decision{}, statusError(err)
	case !decision.Allowed:
		return decision, forbidden(a, decision.Reason)
	}
	return decision, nil
}

// statusError returns err if it is an apierrors.APIStatus, and otherwise a Status that omits the text of err.
func statusError(err error) error {
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError("the request ended while it waited", 1)
	}
	return apierrors.NewInternalError(errors.New("whether this is allowed could not be found out"))
}

// markup escapes the characters in error messages that kube-apiserver escapes.
var markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func forbidden(a Attributes, reason string) error {
	message := fmt.Sprintf("User %q cannot %s path %q", a.User.Username, a.Verb, a.Path)
	if a.Path == "" {
		resource := a.Resource
		if a.Subresource != "" {
			resource += "/" + a.Subresource
		}
		where := "at the cluster scope"
		if a.Namespace != "" {
			where = fmt.Sprintf("in the namespace %q", a.Namespace)
		}
		message = fmt.Sprintf("User %q cannot %s resource %q in API group %q %s",
			a.User.Username, a.Verb, resource, a.Group, where)
	}
	message = markup.Replace(message)
	if reason != "" {
		message += ": " + reason
	}
	return apierrors.NewForbidden(a.GroupResource(), a.Name, errors.New(message))
}

func tooManyRequests(message string) error {
	return apierrors.NewTooManyRequests(message, 1)
}

func statusOf(err error) metav1.Status {
	var answer apierrors.APIStatus
	_ = errors.As(statusError(err), &answer) // errors.As always succeeds: statusError returns an APIStatus
	status := answer.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return status
}

// WriteError responds with the Status of err, in the format that the client accepts. If err is not an
// apierrors.APIStatus, the response is a 504 if a context has ended, or a 500, without the text of err.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	status := statusOf(err)
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	if status.Code == http.StatusUnauthorized && r.ProtoMajor == 2 {
		// As in kube-apiserver, an unauthenticated client cannot keep an HTTP/2 connection (CVE-2023-44487).
		w.Header().Set("Connection", "close")
	}
	if status.Code == http.StatusForbidden {
		w.Header().Set("X-Content-Type-Options", "nosniff")
	}
	writeObject(w, r, int(status.Code), &status, schema.GroupVersion{Version: "v1"})
}

// Union returns an Authenticator that asks authenticators in order until one knows the user. If no authenticator does,
// the result is false with their joined errors.
//
// The authenticators are for different kinds of credentials; the cheapest comes first. An Upstream comes last, so that
// tokens of other authenticators are not sent to its API server. An authenticator that replaces the API server during
// an outage belongs in UpstreamOptions.Accounts: a Union would also ask it about a token that the API server has
// revoked.
func Union(authenticators ...Authenticator) Authenticator { return union(authenticators) }

type union []Authenticator

func (u union) Authenticate(r *http.Request) (User, bool, error) {
	var errs []error
	for _, a := range u {
		user, ok, err := a.Authenticate(r)
		switch {
		case err != nil:
			errs = append(errs, err)
		case ok:
			return user, true, nil
		}
	}
	return User{}, false, errors.Join(errs...)
}

// FallbackAuthorizer returns an Authorizer that asks upstream, and asks offline only if upstream fails with
// ErrUnreachable. Decision.Offline is true in the decisions of offline. A denial by upstream is final.
func FallbackAuthorizer(upstream, offline Authorizer) Authorizer {
	return fallbackAuthorizer{upstream, offline}
}

type fallbackAuthorizer struct{ upstream, offline Authorizer }

func (f fallbackAuthorizer) Authorize(ctx context.Context, a Attributes) (Decision, error) {
	d, err := f.upstream.Authorize(ctx, a)
	if !errors.Is(err, ErrUnreachable) {
		return d, err
	}
	if d, err = f.offline.Authorize(ctx, a); err != nil {
		return Decision{}, err
	}
	d.Reason, d.Offline = "the API server cannot be reached, and "+d.Reason, true
	return d, nil
}

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
