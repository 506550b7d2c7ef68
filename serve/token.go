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

const inconsistentRV = -1

// token encodes where the next page of a list begins, in kube-apiserver's opaque format.
type token struct {
	Version string `json:"v"`
	RV      int64  `json:"rv"`
	// Start is the key at which the next page begins, relative to the list's namespace.
	Start string `json:"start"`
	Left  int    `json:"left,omitempty"`
}

func (t token) encode() string {
	t.Version = metav1.SchemeGroupVersion.String()
	data, _ := json.Marshal(t) // Marshal cannot fail: the token has only strings and numbers
	return base64.RawURLEncoding.EncodeToString(data)
}

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

// startOf returns the start, relative to the list's prefix, of the page after the object with the given key.
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
	return start[:len(start)-1] + string([]byte{start[len(start)-1] - 1, 0xff})
}
