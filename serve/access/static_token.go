package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/util/uuid"
)

const tokenPrefix = "larder-"

// NewToken returns a random bearer token of 256 bits, as 50 characters.
func NewToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // rand.Read never fails
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// IsNewToken reports whether a token has the form of NewToken's tokens. Tokens of API servers have another form.
func IsNewToken(token string) bool {
	return len(token) == len(NewToken()) && strings.HasPrefix(token, tokenPrefix)
}

// minToken is the minimum length of a static token in characters. Shorter tokens might be guessed.
const minToken = 32

// StaticToken authenticates one bearer token, which the process writes to a kubeconfig.
type StaticToken struct {
	// hash is the token's hash. The token itself is not kept.
	hash [sha256.Size]byte
	user User
}

// NewStaticToken returns an authenticator that accepts the given token, for a user with the given name. It fails if the
// token has less than 32 characters.
func NewStaticToken(token, name string) (*StaticToken, error) {
	if len(token) < minToken {
		return nil, errors.New("a static token has 32 characters at least: make it with NewToken")
	}
	user, ok := authenticated(User{Username: name, UID: string(uuid.NewUUID())})
	if !ok {
		return nil, errors.New("a static token needs the name of a user")
	}
	return &StaticToken{hash: sha256.Sum256([]byte(token)), user: user}, nil
}

// User returns the user of the token. Each StaticToken has a random UID, so that a user of the same name from another
// authenticator is a different user.
func (t *StaticToken) User() User { return t.user }

// Authenticate implements Authenticator. The comparison takes the same time for every token.
func (t *StaticToken) Authenticate(r *http.Request) (User, bool, error) {
	token, err := bearer(r)
	if token == "" || err != nil {
		return User{}, false, err
	}
	hash := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(hash[:], t.hash[:]) != 1 {
		return User{}, false, nil
	}
	return t.user, true, nil
}
