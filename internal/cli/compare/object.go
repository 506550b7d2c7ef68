package compare

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
)

// Object returns an object of this file as YAML, without its managedFields. It returns "" if the file does not contain
// the object, or if the object is confidential or excluded from the comparison.
func (d *Side) Object(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string) (string, error) {
	if slices.Contains(d.skipped, gvr) {
		return "", nil
	}
	for _, c := range d.Status.Collections {
		if c.GVR() != gvr || c.Saved().Confidential() != "" || c.Namespace != "" && c.Namespace != namespace {
			continue
		}
		var found *unstructured.Unstructured
		q := source.Query{Collection: c.ID, Namespace: namespace, Name: name}
		err := d.Source.Entries(ctx, q, func(e entry.Entry) (err error) {
			found, err = snapshot.NewDecoder(c.Saved()).Decode(e)
			return err
		})
		if err != nil {
			return "", &SideError{d.Path, err}
		}
		if found != nil {
			unstructured.RemoveNestedField(found.Object, "metadata", "managedFields")
			text, err := command.ToYAML(found)
			return string(text), err
		}
	}
	return "", nil
}
