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

// Require returns nil if the authorizer allows a, and otherwise an apierrors.APIStatus for the client: 403 with
// kube-apiserver's words and the authorizer's reason; 503 if the API server that decides cannot be reached; 500 if the
// decision failed. The 503, which kube-apiserver has not (an authorizing webhook that fails is a 500 there), has
// clients try again, and says what is the case: nobody has refused anything.
func Require(ctx context.Context, authorizer Authorizer, a Attributes) error {
	_, err := Decide(ctx, authorizer, a)
	return err
}

// Decide returns the decision, and the error that Require returns. A Decision with an error does not allow.
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

// statusError returns an error that is an apierrors.APIStatus: err itself if it is, or one that tells nothing of it.
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

// markup is what kube-apiserver does not repeat as it is in errors.
var markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// forbidden is kube-apiserver's error for what is not allowed.
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

// statusOf returns the Status for a client of any error.
func statusOf(err error) metav1.Status {
	var answer apierrors.APIStatus
	_ = errors.As(statusError(err), &answer) // it is one
	status := answer.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return status
}

// WriteError answers a request with the Status of err, in the format that the client accepts. What is no
// apierrors.APIStatus becomes a 500 that tells nothing of it.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	status := statusOf(err)
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	if status.Code == http.StatusUnauthorized && r.ProtoMajor == 2 {
		// As kube-apiserver: nobody unknown keeps an HTTP/2 connection (CVE-2023-44487).
		w.Header().Set("Connection", "close")
	}
	if status.Code == http.StatusForbidden {
		w.Header().Set("X-Content-Type-Options", "nosniff")
	}
	writeObject(w, r, int(status.Code), &status, schema.GroupVersion{Version: "v1"})
}
