package serve

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	gopath "path"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inconsistentRV is the resourceVersion in a continue token that requests the rest of a list in the newest state.
const inconsistentRV = -1

// token encodes where the next page of a list begins. It has the format of kube-apiserver's continue tokens, which are
// opaque to clients.
type token struct {
	Version string `json:"v"`
	RV      int64  `json:"rv"`
	// Start is the key at which the next page begins, relative to the list's namespace.
	Start string `json:"start"`
	// Left is the number of objects that follow the page; 0 if unknown.
	Left int `json:"left,omitempty"`
}

func (t token) encode() string {
	t.Version = metav1.SchemeGroupVersion.String()
	data, _ := json.Marshal(t) // cannot fail: the token has only strings and numbers
	return base64.RawURLEncoding.EncodeToString(data)
}

// parseToken parses a continue token. It rejects the tokens that kube-apiserver rejects, with its messages.
func parseToken(text string) (*token, error) {
	var t token
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	switch {
	case err != nil:
	case t.Version != metav1.SchemeGroupVersion.String():
		err = fmt.Errorf("server does not recognize this encoded version %s", t.Version)
	case t.RV == 0 || t.RV < inconsistentRV:
		err = fmt.Errorf("incorrect encoded start resourceVersion (version %s)", t.Version)
	case t.Start == "":
		err = fmt.Errorf("encoded start key empty (version %s)", t.Version)
	case gopath.Clean("/"+t.Start) != "/"+strings.TrimPrefix(t.Start, "/"):
		err = errors.New(t.Start)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest("invalid continue token: continue key is not valid: " + err.Error())
	}
	return &t, nil
}

// startOf returns the start of the page that follows the object with the given key, for a continue token. It is
// relative to the prefix of the list.
func startOf(key, prefix string) string { return "/" + strings.TrimPrefix(key, prefix) + "\x00" }

// after returns the key after which the token's page begins. A token of kube-apiserver may instead contain the first
// key of the page. after then returns the greatest key before that key.
func (t *token) after(prefix string) string {
	start := prefix + strings.TrimPrefix(t.Start, "/")
	if key, ok := strings.CutSuffix(start, "\x00"); ok {
		return key
	}
	if start == "" {
		return ""
	}
	// The result is the greatest possible key before start.
	return start[:len(start)-1] + string([]byte{start[len(start)-1] - 1, 0xff})
}
