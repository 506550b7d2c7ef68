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

// inconsistentRV in a token asks for the rest of a list at the newest state.
const inconsistentRV = -1

// token says where the next page of a list begins. Its form is that of kube-apiserver's tokens, and clients must not
// look into it.
type token struct {
	Version string `json:"v"`
	RV      int64  `json:"rv"`
	// Start follows the last key of the pages before.
	Start string `json:"start"`
	// Left is the number of objects behind them; 0 if it is not known.
	Left int `json:"left,omitempty"`
}

func (t token) encode() string {
	t.Version = metav1.SchemeGroupVersion.String()
	data, _ := json.Marshal(t) // a struct of strings and numbers
	return base64.RawURLEncoding.EncodeToString(data)
}

// parseToken refuses what kube-apiserver refuses, in its words.
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

// startOf is a token's Start for the keys behind one. It is relative to the prefix that the keys of the list have.
func startOf(key, prefix string) string { return "/" + strings.TrimPrefix(key, prefix) + "\x00" }

// after is the key behind which the next page begins: a start that ends otherwise than ours is the key itself.
func (t *token) after(prefix string) string {
	start := prefix + strings.TrimPrefix(t.Start, "/")
	if key, ok := strings.CutSuffix(start, "\x00"); ok {
		return key
	}
	if start == "" {
		return ""
	}
	// The greatest key before start, for all keys that there are.
	return start[:len(start)-1] + string([]byte{start[len(start)-1] - 1, 0xff})
}
