package fakeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Messages of kube-apiserver that clients are known to match.
const (
	messageExpiredList     = "The resourceVersion for the provided list is too old."
	messageExpiredContinue = "The provided continue parameter is too old " +
		"to display a consistent list result. You can start a new list without " +
		"the continue parameter, or use the continue token in this response to " +
		"retrieve the remainder of the results. Continuing with the provided " +
		"token results in an inconsistent list - objects that were created, " +
		"modified, or deleted between the time the first chunk was returned " +
		"and now may show up in the list."
	messageTooLarge = "Too large resource version"
)

func errTooLarge(wanted, current uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", wanted, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: messageTooLarge,
	}}
	return err
}

func errExpiredWatch(wanted, oldest uint64) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", wanted, oldest))
}

// errExpiredContinue is a 410 with a token that continues at start in the newest state.
func errExpiredContinue(start string) error {
	err := apierrors.NewResourceExpired(messageExpiredContinue)
	err.ErrStatus.ListMeta.Continue = continueToken{RV: inconsistentRV, Start: start}.encode()
	return err
}

// errStatus is an error that apierrors has no function for.
func errStatus(code int, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Message: message,
		Reason: metav1.StatusReason(strings.ReplaceAll(http.StatusText(code), " ", "")),
	}}
}

func errNoSuchPath() error {
	return errStatus(http.StatusNotFound, "the server could not find the requested resource")
}

// statusOf returns the Status that clients get.
func statusOf(err error) metav1.Status {
	status := metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Reason: metav1.StatusReasonInternalError, Message: err.Error(),
	}
	if known := apierrors.APIStatus(nil); errors.As(err, &known) {
		status = known.Status()
	}
	status.Kind, status.APIVersion = "Status", "v1"
	return status
}

// statusBody encodes status in representation r.
func statusBody(status metav1.Status, r representation) ([]byte, error) {
	if !r.protobuf() {
		return json.Marshal(status)
	}
	raw, err := status.Marshal()
	if err != nil {
		return nil, err
	}
	return appendEnvelope(nil, "v1", "Status", raw), nil
}

func writeError(w http.ResponseWriter, err error) {
	status := statusOf(err)
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	writeJSON(w, int(status.Code), status)
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", contentJSON)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}
