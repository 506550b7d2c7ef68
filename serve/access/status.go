package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Require returns nil if the authorizer allows the request a, and otherwise an apierrors.APIStatus for the client. A
// denial is a 403 with kube-apiserver's message and the authorizer's reason. If the API server that decides is
// unreachable, the error is a 503, which makes clients retry (kube-apiserver returns 500 for a failed webhook). Any
// other APIStatus of the authorizer is returned unchanged. Other errors become 504 if a context has ended, and
// otherwise 500.
func Require(ctx context.Context, authorizer Authorizer, a Attributes) error {
	_, err := Decide(ctx, authorizer, a)
	return err
}

// Decide returns the authorizer's decision, and Require's error. A Decision with an error allows nothing.
func Decide(ctx context.Context, authorizer Authorizer, a Attributes) (Decision, error) {
	decision, err := authorizer.Authorize(ctx, a)
	switch {
	case err != nil:
		return Decision{}, statusError(err)
	case !decision.Allowed:
		return decision, forbidden(a, decision.Reason)
	}
	return decision, nil
}

// statusError returns err if it is an apierrors.APIStatus, and otherwise a Status that omits the text of err.
func statusError(err error) error {
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError("the request ended while it waited", 1)
	}
	return apierrors.NewInternalError(errors.New("whether this is allowed could not be found out"))
}

// markup escapes the characters in error messages that kube-apiserver escapes.
var markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func forbidden(a Attributes, reason string) error {
	message := fmt.Sprintf("User %q cannot %s path %q", a.User.Username, a.Verb, a.Path)
	if a.Path == "" {
		resource := a.Resource
		if a.Subresource != "" {
			resource += "/" + a.Subresource
		}
		where := "at the cluster scope"
		if a.Namespace != "" {
			where = fmt.Sprintf("in the namespace %q", a.Namespace)
		}
		message = fmt.Sprintf("User %q cannot %s resource %q in API group %q %s",
			a.User.Username, a.Verb, resource, a.Group, where)
	}
	message = markup.Replace(message)
	if reason != "" {
		message += ": " + reason
	}
	return apierrors.NewForbidden(a.GroupResource(), a.Name, errors.New(message))
}

func tooManyRequests(message string) error {
	return apierrors.NewTooManyRequests(message, 1)
}

func statusOf(err error) metav1.Status {
	var answer apierrors.APIStatus
	_ = errors.As(statusError(err), &answer) // errors.As always succeeds: statusError returns an APIStatus
	status := answer.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return status
}

// WriteError responds with the Status of err, in the format that the client accepts. If err is not an
// apierrors.APIStatus, the response is a 504 if a context has ended, or a 500, without the text of err.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	status := statusOf(err)
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	if status.Code == http.StatusUnauthorized && r.ProtoMajor == 2 {
		// As in kube-apiserver, an unauthenticated client cannot keep an HTTP/2 connection (CVE-2023-44487).
		w.Header().Set("Connection", "close")
	}
	if status.Code == http.StatusForbidden {
		w.Header().Set("X-Content-Type-Options", "nosniff")
	}
	writeObject(w, r, int(status.Code), &status, schema.GroupVersion{Version: "v1"})
}
