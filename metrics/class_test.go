package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
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
		want class
	}{
		{nil, healthy},
		{store.ErrNoSpace, noSpace},
		{store.ErrReplaced, replaced},
		{store.ErrOutcomeUnknown, outcomeUnknown},
		{entry.ErrDamaged, damaged},
		{store.ErrSlowDisk, slowDisk},
		{store.ErrClosed, closed},
		{store.ErrOtherCluster, otherCluster},
		{reflector.ErrStrays, strays},
		{apierrors.NewUnauthorized("no"), denied},
		{apierrors.NewForbidden(pods, "", errors.New("no")), denied},
		{apierrors.NewNotFound(pods, ""), notServed},
		{apierrors.NewMethodNotSupported(pods, "watch"), notServed},
		{apierrors.NewTooManyRequests("later", 1), server},
		{apierrors.NewInternalError(errors.New("bug")), server},
		{&url.Error{Op: "Get", URL: "https://server", Err: &net.OpError{Op: "dial", Err: errors.New("refused")}}, connection},
		{fmt.Errorf("%w: %w", reflector.ErrPutOff, context.DeadlineExceeded), server},
		{reflector.ErrSilent, connection},
		{reflector.ErrOverdue, connection},
		{errors.New("what is this"), other},
	} {
		err := tc.err
		if err != nil {
			err = fmt.Errorf("watch *v1.Pod: %w", err)
		}
		if got := classOf(err); got != tc.want || !slices.Contains(classes, got) {
			t.Errorf("%v: %s, want %s", tc.err, got, tc.want)
		}
	}
}
