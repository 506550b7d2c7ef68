package mirror

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/entry"
)

// explained adds advice to an error of a watch or list: for a resource that the server does not find, perhaps because
// it has retired the version, and for a forbidden resource.
func (mb *member) explained(err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; larder sync needs the verbs list and watch: %s", err, canI(mb.identity))
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w; the server may have it in another version than %s: kubectl api-resources tells, and "+
			"larder sync takes RESOURCE.VERSION.GROUP", err, mb.identity.Version)
	}
	return err
}

// canI returns the kubectl auth can-i commands that show whether a user may list and watch a collection.
func canI(id entry.Identity) string {
	where := "-A"
	if id.Namespace != "" {
		where = "-n " + id.Namespace
	}
	return fmt.Sprintf("kubectl auth can-i list %s %s; kubectl auth can-i watch %[1]s %[2]s", id.GroupResource(), where)
}
