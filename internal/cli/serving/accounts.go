package serving

import (
	"bytes"
	"context"
	"net/http"
	"sync"

	"github.com/go-logr/logr"

	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/serve/access"
)

// storedAccounts authenticates service accounts of the mirrored cluster by their tokens. It verifies a token with the
// cluster's keys in the store. It reads the keys for each token, because a first sync stores them only after it has
// begun to serve, and clusters rotate them.
type storedAccounts struct {
	facts  facts.Documents
	logger logr.Logger

	mu       sync.Mutex
	keys     facts.Keys              // keys are the keys read last, valid or not; mu guards them
	accounts *access.ServiceAccounts // accounts verifies tokens with keys; nil if no valid keys are stored; mu guards it
}

// Authenticate implements access.Authenticator. It recognises no token if no keys are stored.
func (s *storedAccounts) Authenticate(r *http.Request) (access.User, bool, error) {
	accounts := s.current(r.Context())
	if accounts == nil {
		return access.User{}, false, nil
	}
	return accounts.Authenticate(r)
}

// current returns the verifier of tokens for the stored keys. If the keys cannot be read, it returns the previous
// verifier.
func (s *storedAccounts) current(ctx context.Context) *access.ServiceAccounts {
	stored, err := facts.ReadKeys(ctx, s.facts)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.logger.V(2).Info("The keys of service accounts cannot be read", "err", err)
	case stored == nil:
		s.keys, s.accounts = facts.Keys{}, nil
	case stored.Issuer != s.keys.Issuer || !bytes.Equal(stored.JWKS, s.keys.JWKS):
		s.keys = *stored
		if s.accounts, err = access.NewServiceAccounts(access.Issuer{URL: stored.Issuer, JWKS: stored.JWKS}); err != nil {
			s.logger.Error(err, "The stored keys of service accounts are of no use")
			s.accounts = nil
		}
	}
	return s.accounts
}
