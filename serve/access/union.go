package access

import (
	"context"
	"errors"
	"net/http"
)

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
