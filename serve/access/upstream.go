package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// The API server's allowed answers are cached for yesLasts, its denials for noLasts. kube-apiserver caches the answers
// of its webhooks for minutes, aggregated API servers for 10 s. Larder uses the 10 s of aggregated API servers, so that
// revocations take effect soon. A denial is cached for a shorter time, since a user retries soon after a right has been
// granted. Requests of two pods of one service account are cached separately: their tokens name the pods, and a webhook
// may use the names.
const (
	yesLasts = RightsLast
	noLasts  = 2 * time.Second
)

// RightsLast is how long the API server's decision that a user may make a request is cached. Package serve uses
// RightsLast to authorize running watches again.
const RightsLast = 10 * time.Second

// UpstreamOptions are the options of NewUpstream.
type UpstreamOptions struct {
	// Audiences are the audiences for which tokens are accepted. Default: the API server's audiences, which pods'
	// tokens have by default.
	Audiences []string
	// Accounts authenticates tokens without the API server, as ServiceAccounts does. A token that Accounts finds forged
	// or expired is rejected without a review. While the API server is unreachable, Accounts decides about all tokens.
	// Default: an authenticator that knows no tokens.
	Accounts Authenticator
	// UnknownTokenReviews is the maximum number of concurrent TokenReviews of unknown tokens. Default 16.
	UnknownTokenReviews int
	// UnknownTokensPerMinute is the maximum number of unknown tokens of a client address that are rejected within a
	// minute. Further unknown tokens return 429. Default 120.
	UnknownTokensPerMinute int
	// Timeout is the timeout of each review. Default 5 s.
	Timeout time.Duration
	// Logger logs the beginning and the end of each outage of the API server. Default: klog.Background().
	Logger *logr.Logger
}

// Upstream authenticates bearer tokens with TokenReviews of an API server, and authorizes with SubjectAccessReviews.
// Answers are cached for 10 s, denials for 2 s, up to 8,192 of each kind. Tokens are not stored.
//
// A token is unknown unless UpstreamOptions.Accounts has verified it, or the API server has accepted it within the last
// hour. The concurrent reviews of unknown tokens are limited, and so are rejected tokens per client address and minute.
// Random tokens therefore cannot lock out other clients, and rarely reach the API server. A client address is an IPv4
// address or an IPv6 /64.
//
// Errors wrap ErrUnreachable if the API server does not answer: no connection, a timeout, or a gateway's 502, 503 or
// 504. For two seconds after that, reviews fail at once. After any other error the API server is reachable, but does
// not decide. Most often it rejects reviews, because Larder's own user lacks the ClusterRole system:auth-delegator.
type Upstream struct {
	audiences      []string
	timeout        time.Duration
	log            logr.Logger
	authentication rest.Interface
	authorization  rest.Interface
	accounts       Authenticator
	users          *reviewCache[userReview]
	unknown        *unknownTokens
	decisions      *reviewCache[Decision]
	slots          chan struct{}
	outage         outage
}

// NewUpstream returns an Upstream that asks the API server of config. It ignores config's QPS limit.
func NewUpstream(config *rest.Config, o UpstreamOptions) (*Upstream, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter = -1, nil // maxReviews limits reviews; a rate limit would look like an outage
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	authentication, err := authenticationclient.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	authorization, err := authorizationclient.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	u := &Upstream{
		audiences: slices.Clone(o.Audiences), timeout: o.Timeout, log: loggerOr(o.Logger),
		authentication: authentication.RESTClient(), authorization: authorization.RESTClient(),
		accounts: o.Accounts, users: newReviewCache[userReview](), decisions: newReviewCache[Decision](),
		unknown: newUnknownTokens(o), slots: make(chan struct{}, maxReviews),
	}
	if u.accounts == nil {
		u.accounts = Union()
	}
	if u.timeout <= 0 {
		u.timeout = defaultReviewTimeout
	}
	return u, nil
}

func loggerOr(log *logr.Logger) logr.Logger {
	if log == nil {
		return klog.Background()
	}
	return *log
}

type userReview struct {
	user User
	ok   bool
	// why is the API server's reason for rejecting the token; it may be empty.
	why string
}

// Authenticate implements Authenticator. It asks the API server only if no answer is cached.
func (u *Upstream) Authenticate(r *http.Request) (User, bool, error) {
	token, err := bearer(r)
	if token == "" || err != nil {
		return User{}, false, err
	}
	k := u.users.key(token)
	if answer, ok := u.cached(k); ok {
		return answer.result()
	}
	user, signed, refused := u.accounts.Authenticate(r)
	if isFinal(refused) {
		return User{}, false, refused
	}
	var answer userReview
	if signed || u.unknown.accepted(k) {
		answer, err = u.users.get(r.Context(), k, func(ctx context.Context) (userReview, time.Duration, error) {
			return u.reviewToken(ctx, u.slots, k, token)
		})
	} else {
		answer, err = u.reviewUnknown(r, k, token)
	}
	switch {
	case errors.Is(err, ErrUnreachable) && (signed || refused != nil):
		return user, signed, refused
	case err != nil:
		return User{}, false, err
	}
	return answer.result()
}

func (u *Upstream) cached(k cacheKey) (userReview, bool) {
	if answer, ok := u.users.kept(k); ok {
		return answer, true
	}
	return u.unknown.answers.kept(k)
}

// reviewUnknown asks the API server about an unknown token, which may be random, within the limits for unknown tokens.
// Concurrent requests with the same token share one review and count once.
func (u *Upstream) reviewUnknown(r *http.Request, k cacheKey, token string) (userReview, error) {
	return u.unknown.answers.get(r.Context(), k, func(ctx context.Context) (userReview, time.Duration, error) {
		undo, ok := u.unknown.begin(clientOf(r))
		if !ok {
			return userReview{}, 0, tooManyRequests("cannot find out whose token this is: too many unknown tokens of this " +
				"address were refused; try again in a minute")
		}
		answer, lasts, err := u.reviewToken(ctx, u.unknown.slots, k, token)
		if answer.ok || err != nil {
			undo()
		}
		return answer, lasts, err
	})
}

func (u *Upstream) reviewToken(
	ctx context.Context, slots chan struct{}, k cacheKey, token string,
) (userReview, time.Duration, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: u.audiences}}
	err := u.post(ctx, slots, u.authentication, "tokenreviews", review, "find out whose token this is")
	if err != nil {
		return userReview{}, 0, err
	}
	answer, lasts, err := readTokenReview(review.Status, token, u.audiences)
	if answer.ok {
		u.users.keep(k, answer, lasts)
		u.unknown.accept(k)
	}
	return answer, lasts, err
}

func (a userReview) result() (User, bool, error) {
	if a.why != "" {
		return User{}, false, fmt.Errorf("the API server refuses the token: %s", a.why)
	}
	return a.user, a.ok, nil
}

func readTokenReview(
	status authenticationv1.TokenReviewStatus, token string, audiences []string,
) (userReview, time.Duration, error) {
	if !status.Authenticated {
		if strings.Contains(status.Error, token) { // API servers do not echo the token, but a webhook may
			status.Error = ""
		}
		return userReview{why: status.Error}, noLasts, nil
	}
	meant := len(audiences) == 0 || slices.ContainsFunc(status.Audiences, func(a string) bool {
		return slices.Contains(audiences, a)
	})
	if !meant { // a server without support for audiences returns no audiences
		return userReview{why: "it is for another audience"}, noLasts, nil
	}
	user, ok := authenticated(status.User)
	return userReview{user: user, ok: ok}, yesLasts, nil
}

// Authorize implements Authorizer.
func (u *Upstream) Authorize(ctx context.Context, a Attributes) (Decision, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: accessReviewSpec(a)}
	key, err := json.Marshal(review.Spec)
	if err != nil {
		return Decision{}, err
	}
	ask := func(ctx context.Context) (Decision, time.Duration, error) {
		err := u.post(ctx, u.slots, u.authorization, "subjectaccessreviews", review,
			"find out what you may do without --offline-access")
		if err != nil {
			return Decision{}, 0, err
		}
		s := review.Status
		if s.Allowed && !s.Denied {
			return Decision{Allowed: true, Reason: s.Reason}, yesLasts, nil
		}
		if s.Reason == "" {
			s.Reason = s.EvaluationError
		}
		return Decision{Reason: s.Reason}, noLasts, nil
	}
	return u.decisions.get(ctx, u.decisions.key(string(key)), ask)
}

func accessReviewSpec(a Attributes) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{User: a.User.Username, UID: a.User.UID, Groups: a.User.Groups}
	if len(a.User.Extra) > 0 {
		spec.Extra = map[string]authorizationv1.ExtraValue{}
		for k, v := range a.User.Extra {
			spec.Extra[k] = authorizationv1.ExtraValue(v)
		}
	}
	if a.Path != "" {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: a.Path, Verb: a.Verb}
		return spec
	}
	spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Verb: a.Verb, Group: a.Group, Version: a.Version, Resource: a.Resource, Subresource: a.Subresource,
		Namespace: a.Namespace, Name: a.Name, FieldSelector: a.FieldSelector, LabelSelector: a.LabelSelector,
	}
	return spec
}
