package serve

import (
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/discovery"
	"github.com/larder-dev/larder/serve/access"
)

// allowed returns nil if the user of the request may do what it asks for.
func (q *request) allowed(verb string) error {
	rights := q.Handler.options.Authorizer
	if rights == nil {
		return nil
	}
	return access.Require(q.ctx, rights, q.attributes(verb))
}

// attributes are what the request asks for.
func (q *request) attributes(verb string) access.Attributes {
	user, _ := access.UserFrom(q.r.Context())
	a := access.Attributes{User: user, Verb: verb, Group: q.path.Group, Version: q.path.Version,
		Resource: q.path.Resource, Subresource: q.path.subresource, Namespace: q.path.namespace, Name: q.path.name}
	if q.path.Resource == "namespaces" {
		a.Namespace = q.path.name
	}
	if q.path.Resource == "" {
		a = access.Attributes{User: user, Verb: verb, Path: q.r.URL.Path}
	}
	if o := q.options; o != nil && q.path.name == "" {
		a.Name, _ = o.fields.RequiresExactMatch("metadata.name")
		if !o.fields.Empty() {
			a.FieldSelector = &authorizationv1.FieldSelectorAttributes{RawSelector: o.fields.String()}
		}
		if !o.labels.Empty() {
			a.LabelSelector = &authorizationv1.LabelSelectorAttributes{RawSelector: o.labels.String()}
		}
	}
	return a
}

// stillAllowed returns the refusal of a watch whose user has lost the right to it. While nobody can say, the watch goes
// on: what it gets is what the API server, which would say, has sent. The right to watch all objects is asked for
// first, since agents that select different objects share that question.
func (q *request) stillAllowed() error {
	rights := q.Handler.options.Authorizer
	if rights == nil {
		return nil
	}
	a := q.attributes("watch")
	all := a
	all.FieldSelector, all.LabelSelector, all.Name = nil, nil, ""
	if access.Require(q.ctx, rights, all) == nil {
		return nil
	}
	if err := access.Require(q.ctx, rights, a); apierrors.IsForbidden(err) {
		return err
	}
	return nil
}

// reviews are the resources that answer what clients ask about themselves.
var reviews = []discovery.Resource{
	review("authorization.k8s.io", "SelfSubjectAccessReview"),
	review("authorization.k8s.io", "SelfSubjectRulesReview"),
	review("authentication.k8s.io", "SelfSubjectReview"),
}

func review(group, kind string) discovery.Resource {
	singular := strings.ToLower(kind)
	return discovery.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: singular + "s"},
		ResourceInfo:         entry.ResourceInfo{Kind: kind, Singular: singular}, Verbs: []string{"create"},
	}
}

// isReview reports whether the request asks what its user may do.
func (q *request) isReview() bool {
	if q.Handler.options.Authorizer == nil || q.r.Method != http.MethodPost {
		return false
	}
	for _, r := range reviews {
		if q.path.GroupVersionResource == r.GroupVersionResource {
			return true
		}
	}
	return false
}
