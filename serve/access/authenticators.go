package access

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/util/cert"

	"github.com/larder-dev/larder/serve/access/internal/reload"
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

// TokenFile authenticates the bearer tokens in a file with the format of kube-apiserver's --token-auth-file:
//
//	token,user,uid,"group1,group2"
//
// The groups are optional. A changed file takes effect within a second. If the changed file is invalid or missing, the
// previous tokens stay valid, and an error is logged. To revoke the last token, use an empty file.
type TokenFile struct{ source *reload.Source[tokens] }

// tokens maps the SHA-256 of each token to its user. The duration of a lookup by hash reveals nothing about a token.
type tokens map[[sha256.Size]byte]User

// NewTokenFile reads the file of tokens at path.
func NewTokenFile(path string, log logr.Logger) (*TokenFile, error) {
	parse := func(contents [][]byte) (tokens, error) {
		return parseTokens(contents[0], func(line int, problem string) {
			log.Info("Passing over a line of the token file", "file", path, "line", line, "problem", problem)
		})
	}
	source, err := reload.New("tokens", log, parse, path)
	if err != nil {
		return nil, fmt.Errorf("token file: %w", err)
	}
	return &TokenFile{source}, nil
}

// parseTokens parses a file of tokens as kube-apiserver does, but omits anonymous users and users without a name. It
// calls skip for an omitted user. Errors contain line numbers, but no contents.
func parseTokens(data []byte, skip func(line int, problem string)) (tokens, error) {
	all := tokens{}
	reader := csv.NewReader(bytes.NewReader(data))
	reader.FieldsPerRecord = -1
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		line, _ := reader.FieldPos(0)
		if len(record) < 3 {
			return nil, fmt.Errorf("line %d: it has %d columns; there are three at least: token, user and UID",
				line, len(record))
		}
		user := User{Username: record[1], UID: record[2]}
		if len(record) > 3 && record[3] != "" {
			user.Groups = strings.Split(record[3], ",")
		}
		user, ok := authenticated(user)
		hash := sha256.Sum256([]byte(record[0]))
		switch _, double := all[hash]; {
		case record[0] == "":
			skip(line, "the token is empty")
			continue
		case !ok:
			skip(line, "the user has no name or is anonymous")
			continue
		case double:
			skip(line, "the same token was given above; this line counts")
		}
		all[hash] = user
	}
}

// Authenticate implements Authenticator.
func (f *TokenFile) Authenticate(r *http.Request) (User, bool, error) {
	token, err := bearer(r)
	if token == "" || err != nil {
		return User{}, false, err
	}
	user, ok := f.source.Get()[sha256.Sum256([]byte(token))]
	return user, ok, nil
}

// ClientCA authenticates client certificates that are signed by the authorities in a PEM file, like kube-apiserver's
// --client-ca-file. The common name is the user, and the organizations are the groups. A changed file takes effect
// within a second, also on open connections. The TLS listener must request client certificates, as the configuration of
// listener.Certificates does.
type ClientCA struct {
	source *reload.Source[*x509.CertPool]
}

// NewClientCA reads the authorities from the PEM file at path.
func NewClientCA(path string, log logr.Logger) (*ClientCA, error) {
	source, err := reload.New("client certificate authorities", log, parseAuthorities, path)
	if err != nil {
		return nil, fmt.Errorf("client CA: %w", err)
	}
	return &ClientCA{source}, nil
}

func parseAuthorities(contents [][]byte) (*x509.CertPool, error) {
	all, err := cert.ParseCertsPEM(contents[0])
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, c := range all {
		pool.AddCert(c)
	}
	return pool, nil
}

// Pool returns the current certificates of the authorities.
func (a *ClientCA) Pool() *x509.CertPool { return a.source.Get() }

// Authenticate implements Authenticator.
func (a *ClientCA) Authenticate(r *http.Request) (User, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return User{}, false, nil
	}
	own := r.TLS.PeerCertificates[0]
	options := x509.VerifyOptions{
		Roots: a.Pool(), Intermediates: x509.NewCertPool(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range r.TLS.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	if _, err := own.Verify(options); err != nil {
		return User{}, false, fmt.Errorf("client certificate with the serial number %d: %w", own.SerialNumber, err)
	}
	fingerprint := sha256.Sum256(own.Raw)
	user, ok := authenticated(User{
		Username: own.Subject.CommonName, Groups: own.Subject.Organization,
		Extra: map[string]authenticationv1.ExtraValue{
			credentialID: {"X509SHA256=" + hex.EncodeToString(fingerprint[:])},
		},
	})
	return user, ok, nil
}

// maxToken is the maximum size of a bearer token in bytes. Service-account tokens have about 1 KB; tokens of identity
// providers with many groups seldom exceed 8 KB.
const maxToken = 16 << 10

var (
	errCredentials = errors.New("the request has more than one Authorization header")
	errLongToken   = fmt.Errorf("the request's bearer token is longer than %d KiB", maxToken>>10)
)

func bearer(r *http.Request) (string, error) {
	headers := r.Header.Values("Authorization")
	switch len(headers) {
	case 0:
		return "", nil
	case 1:
	default: // servers differ in which of several Authorization headers they use
		return "", errCredentials
	}
	scheme, token, _ := strings.Cut(strings.TrimSpace(headers[0]), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", nil
	}
	token, _, _ = strings.Cut(token, " ") // kube-apiserver ignores the text after a space, too
	if len(token) > maxToken {
		return "", errLongToken
	}
	return token, nil
}

const (
	// socketTokenPrefix begins the websocket subprotocol that carries a token. Browsers need the subprotocol, since
	// they cannot set the Authorization header of a websocket.
	socketTokenPrefix = "base64url.bearer.authorization.k8s.io."
	socketProtocols   = "Sec-Websocket-Protocol"
)

var (
	errSocketTokens    = errors.New("the websocket's subprotocols have more than one token")
	errSocketToken     = errors.New("the token in the websocket's subprotocols is no base64url of text")
	errSocketProtocols = errors.New("beside that of the token, the websocket needs a subprotocol to answer with")
)

// moveSocketToken moves a token from the subprotocols of a websocket to the Authorization header, where authenticators
// and API servers expect it. An existing Authorization header takes precedence, as in kube-apiserver.
func moveSocketToken(r *http.Request) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") || r.Header.Get("Authorization") != "" {
		return nil
	}
	token, seen, others := "", false, []string(nil)
	for protocol := range strings.SplitSeq(strings.Join(r.Header.Values(socketProtocols), ","), ",") {
		protocol = strings.TrimSpace(protocol)
		encoded, ok := strings.CutPrefix(protocol, socketTokenPrefix)
		if !ok {
			others = append(others, protocol)
			continue
		}
		decoded, err := base64.RawURLEncoding.DecodeString(encoded)
		switch {
		case seen:
			return errSocketTokens
		case err != nil, !utf8.Valid(decoded):
			return errSocketToken
		}
		token, seen = string(decoded), true
	}
	switch {
	case token == "":
		return nil
	case len(others) == 0:
		return errSocketProtocols
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set(socketProtocols, strings.Join(others, ","))
	return nil
}
