package serve

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/discovery"
	"github.com/larder-dev/larder/serve/access"
)

func (q *request) allowed(verb string) error {
	rights := q.Handler.options.Authorizer
	if rights == nil {
		return nil
	}
	decision, err := access.Decide(q.ctx, rights, q.attributes(verb))
	q.offline = decision.Offline
	return err
}

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

// A running watch is authorized again after a random time between leastRecheck and mostRecheck. The time is random
// because many watches begin at once. A decision is cached for access.RightsLast and takes up to recheckTime, so a
// watch ends within two minutes after its user has lost the right.
const (
	leastRecheck = 50 * time.Second
	mostRecheck  = 100 * time.Second
	recheckTime  = 10 * time.Second
)

func untilRecheck() time.Duration { return leastRecheck + rand.N(mostRecheck-leastRecheck) }

// recheck asks an Authorizer repeatedly whether the user of a running watch may still watch. The goroutine of the
// watch's request owns a recheck.
type recheck struct {
	rights access.Authorizer
	// questions are asked in order, shared questions first. The watch continues if one of them is allowed.
	questions []access.Attributes
	next      int
	// offline is true while only the rules for an outage have allowed the watch.
	offline bool
}

// recheck returns the questions about the watch. The first question asks whether the user may watch all objects, the
// next asks about the selected objects. The last question adds the extra values of the token, which differ between the
// agents of one service account (pod, node, token ID). RBAC and the Node authorizer ignore these values. A webhook may
// use them, so the last question decides before a denial ends the watch.
func (q *request) recheck() *recheck {
	own := q.attributes("watch")
	shared := own
	shared.User = access.WithoutCredential(own.User)
	c := &recheck{rights: q.Handler.options.Authorizer, offline: q.offline}
	if own.FieldSelector != nil || own.LabelSelector != nil || own.Name != "" {
		all := shared
		all.FieldSelector, all.LabelSelector, all.Name = nil, nil, ""
		c.questions = append(c.questions, all)
	}
	c.questions = append(c.questions, shared)
	if len(shared.User.Extra) < len(own.User.Extra) {
		c.questions = append(c.questions, own)
	}
	return c
}

// err asks the questions in order and returns an error if all are denied: the user has lost the right to the watch. A
// question that an API server has denied is not asked again while a later question is allowed.
//
// Without a decision, as in an outage of the API server, the watch continues: the API server sends no events either. A
// denial by the rules for an outage ends only watches that no API server has allowed.
func (c *recheck) err(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recheckTime)
	defer cancel()
	for i := c.next; ; i++ {
		decision, err := access.Decide(ctx, c.rights, c.questions[i])
		switch {
		case decision.Allowed:
			c.offline = c.offline && decision.Offline
			return nil
		case !apierrors.IsForbidden(err) || decision.Offline && !c.offline:
			return nil
		case i == len(c.questions)-1:
			return err
		case !decision.Offline:
			c.next = i + 1
		}
	}
}

// reviews are the resources with which clients ask about their own identity and rights.
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
