package serve

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/apistatus"
	"github.com/larder-dev/larder/store"
)

// errExpiredContinue is the 410 for a list whose state is no longer available. Its message has a continue token for the
// rest of the list, from start on, in the newest state.
func errExpiredContinue(start string) error {
	return apistatus.ExpiredContinue(token{RV: inconsistentRV, Start: start}.encode())
}

// errRead returns the error that a client receives for a failed read of the store or snapshot, and logs the cause.
func errRead(err error) error {
	if apiErr := apierrors.APIStatus(nil); errors.As(err, &apiErr) {
		return err
	}
	klog.Background().Error(err, "What is served cannot be read")
	if errors.Is(err, store.ErrOverwritten) {
		return apierrors.NewServiceUnavailable(store.ErrOverwritten.Error())
	}
	if errors.Is(err, entry.ErrDamaged) {
		return apierrors.NewInternalError(errors.New("what is mirrored is damaged; the log of larder says more"))
	}
	return apierrors.NewInternalError(errors.New("what is mirrored cannot be read; the log of larder says why"))
}

// errReadOnly is kube-apiserver's 405, with a hint that this server is read-only and allows the methods in served.
func errReadOnly(served string) error {
	err := apistatus.New(http.StatusMethodNotAllowed, "the server does not allow this method on the requested resource: "+
		"%s; larder sync --serve --forward sends that to the API server", served)
	err.ErrStatus.Details = &metav1.StatusDetails{}
	return err
}

// errNotMirrored is the 404 for a resource without a collection: the server cannot know whether objects exist.
func errNotMirrored(gvr schema.GroupVersionResource) error {
	err := errNoSuchPath()
	err.ErrStatus.Message += fmt.Sprintf(": %s are not mirrored here", gvr.GroupResource())
	return err
}

func errNoSuchPath() *apierrors.StatusError {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
}

// tooWide is the 403 for a request that includes objects that are not mirrored. scope describes the mirrored objects.
func (q *request) tooWide(k *kind, scope, hint string) error {
	return apierrors.NewForbidden(k.GroupResource(), q.path.name, fmt.Errorf(
		"of this resource only %s are mirrored here; ask for no more%s", scope, hint))
}
