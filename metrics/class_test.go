package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

func TestClassOf(t *testing.T) {
	pods := corev1.Resource("pods")
	for _, tc := range []struct {
		err  error
		want string
	}{
		{nil, "none"},
		{store.ErrNoSpace, "NoSpace"},
		{store.ErrReplaced, "Replaced"},
		{store.ErrOutcomeUnknown, "OutcomeUnknown"},
		{entry.ErrDamaged, "Damaged"},
		{store.ErrSlowDisk, "SlowDisk"},
		{store.ErrClosed, "Closed"},
		{store.ErrOtherCluster, "OtherCluster"},
		{reflector.ErrStrays, "Strays"},
		{apierrors.NewUnauthorized("no"), "Denied"},
		{apierrors.NewForbidden(pods, "", errors.New("no")), "Forbidden"},
		{apierrors.NewNotFound(pods, ""), "NotServed"},
		{apierrors.NewMethodNotSupported(pods, "watch"), "NotServed"},
		{apierrors.NewTooManyRequests("later", 1), "Server"},
		{apierrors.NewInternalError(errors.New("bug")), "Server"},
		{&url.Error{Op: "Get", URL: "https://server", Err: &net.OpError{Op: "dial", Err: errors.New("refused")}}, "Connection"},
		{fmt.Errorf("%w: %w", reflector.ErrPutOff, context.DeadlineExceeded), "Server"},
		{reflector.ErrSilent, "Connection"},
		{apierrors.FromObject(apierrors.NewClientErrorReporter(http.StatusInternalServerError, "GET", "ClientWatchDecoding").
			AsObject(errors.New("unable to decode an event from the watch stream: http2: client connection lost"))), "Connection"},
		{reflector.ErrOverdue, "Connection"},
		{errors.New("what is this"), "Other"},
	} {
		err := tc.err
		if err != nil {
			err = fmt.Errorf("watch *v1.Pod: %w", err)
		}
		if got := classOf(err); got != tc.want {
			t.Errorf("%v: %s, want %s", tc.err, got, tc.want)
		}
	}
}
