package serve

import (
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
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
	return access.Require(q.ctx, rights, a)
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
