package mirror

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/clitest"
)

func TestExplained(t *testing.T) {
	mb := &member{identity: entry.Identity{GroupVersionResource: clitest.Widgets.GroupVersionResource}}
	r := clitest.Widgets.GroupResource()
	for want, err := range map[string]error{
		"in another version than v1beta1: kubectl api-resources tells": apierrors.NewNotFound(r, ""),
		"kubectl auth can-i watch widgets.example.com -A":              apierrors.NewForbidden(r, "", nil),
		"too many": apierrors.NewTooManyRequestsError("too many"),
	} {
		if got := mb.explained(err).Error(); !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
}
