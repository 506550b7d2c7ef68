package cli

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
)

// heardOf is the watch error handler of a member. Of a resource that the server does not find it asks in which version
// that has it now: the store remembers the one that was listed, and a sync would stay with it for ever.
func (mb *member) heardOf(ctx context.Context, r *cache.Reflector, err error) {
	logQuietly(ctx, r, err)
	if !apierrors.IsNotFound(err) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	if now, err := versionNow(ctx, mb.conn.raw, mb.identity.GroupVersionResource); err == nil {
		mb.moved.Store(&now)
	}
}

// explained adds to an error what a user can do: of a resource that is not found in which version the server has it, of
// one that is forbidden which verbs a sync needs.
func (mb *member) explained(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; larder sync needs the verbs list and watch: %s", err, canI(mb.identity))
	}
	now := mb.moved.Load()
	if now == nil || *now == "" || !apierrors.IsNotFound(err) {
		return err
	}
	full := func(version string) string {
		return resource{GroupVersionResource: mb.identity.GroupResource().WithVersion(version)}.full()
	}
	return fmt.Errorf("%w; the server does not have version %s any more: name %s", err, mb.identity.Version, full(*now))
}

// canI is the commands that tell whether a user may do what a sync of a collection does: it lists, and watches.
func canI(id entry.Identity) string {
	where := "-A"
	if id.Namespace != "" {
		where = "-n " + id.Namespace
	}
	return fmt.Sprintf("kubectl auth can-i list %s %s; kubectl auth can-i watch %[1]s %[2]s", id.GroupResource(), where)
}

// versionNow returns the version in which the server prefers to have a resource that it no longer has in the one that
// is given; empty if it still has that, or none.
func versionNow(ctx context.Context, client rest.Interface, gvr schema.GroupVersionResource) (string, error) {
	if gvr.Group == "" { // it has one version
		return "", nil
	}
	var group metav1.APIGroup
	err := client.Get().AbsPath("/apis", gvr.Group).Do(ctx).Into(&group)
	switch {
	case apierrors.IsNotFound(err): // all of it is gone
		return "", nil
	case err != nil:
		return "", err
	}
	d := discovery.NewDiscoveryClient(client)
	found := ""
	for _, version := range preferredFirst(&group) {
		list, err := d.ServerResourcesForGroupVersionWithContext(ctx,
			schema.GroupVersion{Group: gvr.Group, Version: version}.String())
		if err != nil {
			return "", err
		}
		has := slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == gvr.Resource })
		switch {
		case has && version == gvr.Version:
			return "", nil
		case has && found == "":
			found = version
		}
	}
	return found, nil
}
