package serve

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/apistatus"
	"github.com/larder-dev/larder/store"
)

// errExpiredContinue is a 410 with a token for the rest of the list in the newest state.
func errExpiredContinue(start string) error {
	return apistatus.ExpiredContinue(token{RV: inconsistentRV, Start: start}.encode())
}

// errRead is the error for an object or a collection that cannot be read.
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
