package fakeapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newStatus returns an error with the HTTP status code, the code's name as its reason, and the formatted message.
func newStatus(code int, format string, args ...any) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Message: fmt.Sprintf(format, args...),
		Reason: metav1.StatusReason(strings.ReplaceAll(http.StatusText(code), " ", "")),
	}}
}

// tooLarge returns the 504 for a list or watch at a resourceVersion that is newer than the server's current one.
func tooLarge(wanted uint64, current string) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %s", wanted, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
	}}
	return err
}

// expiredWatch returns the 410 for a watch from a resourceVersion that is older than the oldest in the watch history.
func expiredWatch(wanted, oldest string) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %s (%s)", wanted, oldest))
}

// expiredList returns the 410 for a list at a resourceVersion that is too old.
func expiredList() error {
	return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
}

// expiredContinue returns the 410 for a continue token whose resourceVersion is too old. The error carries the given
// token, with which the client lists the remaining objects in their newest state.
func expiredContinue(token string) error {
	err := apierrors.NewResourceExpired("The provided continue parameter is too old " +
		"to display a consistent list result. You can start a new list without " +
		"the continue parameter, or use the continue token in this response to " +
		"retrieve the remainder of the results. Continuing with the provided " +
		"token results in an inconsistent list - objects that were created, " +
		"modified, or deleted between the time the first chunk was returned " +
		"and now may show up in the list.")
	err.ErrStatus.ListMeta.Continue = token
	return err
}

// statusOf returns the Status that clients receive for an error: the Status of an API error, otherwise a 500.
func statusOf(err error) *metav1.Status {
	status := metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Reason: metav1.StatusReasonInternalError, Message: err.Error(),
	}
	if known := apierrors.APIStatus(nil); errors.As(err, &known) {
		status = known.Status()
	}
	status.Kind, status.APIVersion = "Status", "v1"
	return &status
}
