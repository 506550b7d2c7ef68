package access

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-logr/logr"

	"github.com/larder-dev/larder/serve/access/internal/reload"
)

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
