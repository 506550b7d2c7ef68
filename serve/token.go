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

// inconsistentRV in a token requests the rest of a list at the newest state.
const inconsistentRV = -1

// token encodes where the next page of a list begins. It has the format of kube-apiserver's continue tokens, which are
// opaque to clients.
type token struct {
	Version string `json:"v"`
	RV      int64  `json:"rv"`
	// Start is the key at which the next page begins, as startOf returns it.
	Start string `json:"start"`
	// Left is the number of objects that follow; 0 if unknown.
	Left int `json:"left,omitempty"`
}

func (t token) encode() string {
	t.Version = metav1.SchemeGroupVersion.String()
	data, _ := json.Marshal(t) // cannot fail: strings and numbers only
	return base64.RawURLEncoding.EncodeToString(data)
}

// parseToken rejects the tokens that kube-apiserver rejects, with its messages.
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

// startOf returns a token's Start for the page after key. It is relative to the prefix of the list.
func startOf(key, prefix string) string { return "/" + strings.TrimPrefix(key, prefix) + "\x00" }

// after returns the key after which the next page begins. A Start of kube-apiserver may be that page's first key
// itself.
func (t *token) after(prefix string) string {
	start := prefix + strings.TrimPrefix(t.Start, "/")
	if key, ok := strings.CutSuffix(start, "\x00"); ok {
		return key
	}
	if start == "" {
		return ""
	}
	// The greatest possible key before start.
	return start[:len(start)-1] + string([]byte{start[len(start)-1] - 1, 0xff})
}
