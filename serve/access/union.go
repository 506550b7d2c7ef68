package access

import (
	"context"
	"errors"
	"net/http"
)

// Union asks authenticators one after the other until one knows the user. If none does, their errors count.
//
// It is for credentials of different kinds. What takes an Upstream's place while that cannot be reached is an option of
// it (UpstreamOptions.Accounts): in a Union a token that the API server has revoked would be tried on what cannot know
// that. Cheap ones go first; an Upstream goes last, so that tokens that others know are not sent to it.
func Union(authenticators ...Authenticator) Authenticator { return union(authenticators) }

type union []Authenticator

// Authenticate implements Authenticator.
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

// FallbackAuthorizer asks upstream, and, only if that fails with ErrUnreachable, offline, whose decisions are marked
// (Decision.Offline). A "no" of upstream is final.
func FallbackAuthorizer(upstream, offline Authorizer) Authorizer {
	return fallbackAuthorizer{upstream, offline}
}

type fallbackAuthorizer struct{ upstream, offline Authorizer }

// Authorize implements Authorizer.
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
