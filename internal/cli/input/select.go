package input

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
)

// SelectFlags are the flags that select objects in a namespace or by selectors.
type SelectFlags struct {
	Namespaces     []string
	Labels, Fields string
}

// Add adds the flags.
func (f *SelectFlags) Add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVarP(&f.Namespaces, "namespace", "n", nil,
		"take objects of this `NAMESPACE` only; may be given again. Default is all objects, also cluster-scoped ones")
	cmd.Flags().StringVarP(&f.Labels, "selector", "l", "", "label `SELECTOR`: take matching objects only")
	cmd.Flags().StringVar(&f.Fields, "field-selector", "", "field `SELECTOR`: take matching objects only")
}

// Check fails if a selector given by the user cannot be parsed.
func (f *SelectFlags) Check() error {
	_, _, err := CanonicalSelectors(f.Labels, f.Fields)
	return err
}

// CanonicalSelectors returns the two selectors in canonical form. It fails if a selector cannot be parsed.
func CanonicalSelectors(byLabel, byField string) (string, string, error) {
	l, err := labels.Parse(byLabel)
	if err != nil {
		return "", "", command.Usagef("label selector %q: %w", byLabel, err)
	}
	f, err := fields.ParseSelector(byField)
	if err != nil {
		return "", "", command.Usagef("field selector %q: %w", byField, err)
	}
	return l.String(), f.String(), nil
}

// Filter returns the filter for the flags and the arguments args: resources and categories as the user wrote them; none
// means all. It fails if an argument means no resource in any of the files, whose collections are given.
func (f *SelectFlags) Filter(path string, args []string, files ...[]source.Collection) (snapshot.Filter, error) {
	out := snapshot.Filter{Namespaces: f.Namespaces, Labels: f.Labels, Fields: f.Fields}
	stored := slices.Concat(files...)
	known := StoredResources(stored)
	if err := OnlyResources(args); err != nil {
		return out, err
	}
	for _, arg := range SplitArgs(args) {
		found := NamedBy(arg, files...)
		if len(found) == 0 {
			return out, notStored(path, stored, Request{Resource: arg})
		}
		for _, r := range found {
			if name := filterName(r, known); !slices.Contains(out.Resources, name) {
				out.Resources = append(out.Resources, name)
			}
		}
	}
	return out, nil
}

// ObjectNames maps resources to the names of the selected objects. All objects of a resource without an entry are
// selected.
type ObjectNames map[schema.GroupVersionResource][]string

// Take reports whether the object with this key (namespace/name or name) is selected.
func (n ObjectNames) Take(gvr schema.GroupVersionResource, key string) bool {
	names, ok := n[gvr]
	_, name := SplitKey(key)
	return !ok || slices.Contains(names, name)
}

// FilterObjects is Filter for arguments that may also be RESOURCE/NAME. It returns the names of these objects, too.
func (f *SelectFlags) FilterObjects(
	path string, args []string, files ...[]source.Collection,
) (snapshot.Filter, ObjectNames, error) {
	names := ObjectNames{}
	var resources, whole []string
	for _, arg := range SplitArgs(args) {
		r, name, named := strings.Cut(arg, "/")
		if named && (r == "" || name == "" || strings.Contains(name, "/")) {
			return snapshot.Filter{}, nil, command.Usagef("%q is neither RESOURCE nor RESOURCE/NAME", arg)
		}
		if resources = append(resources, r); !named {
			whole = append(whole, r)
			continue
		}
		for _, found := range NamedBy(r, files...) {
			names[found.GroupVersionResource] = append(names[found.GroupVersionResource], name)
		}
	}
	for _, r := range whole {
		for _, found := range NamedBy(r, files...) {
			delete(names, found.GroupVersionResource)
		}
	}
	out, err := f.Filter(path, resources, files...)
	return out, names, err
}

// NamedBy returns the resources that an argument, which is a resource or a category, means in each of the files; each
// resource once.
func NamedBy(arg string, files ...[]source.Collection) []Resource {
	var found []Resource
	for _, stored := range files {
		known := StoredResources(stored)
		for _, name := range append([]string{arg}, MembersOf(arg, stored)...) {
			r, ok := source.Match(name, known)
			same := func(o Resource) bool { return o.GroupVersionResource == r.GroupVersionResource }
			if ok && !slices.ContainsFunc(found, same) {
				found = append(found, r)
			}
		}
	}
	return found
}

// filterName returns a name of the resource that no other known resource has. The name may have a group and a version,
// because a plural may exist in several groups and versions. Unlike kubectl, a snapshot.Filter does not prefer a group.
func filterName(r Resource, known []Resource) string {
	same := 0
	for _, k := range known {
		if k.Called(r.Resource) {
			same++
		}
	}
	if same == 1 {
		return r.String()
	}
	return r.Full()
}

// DecodeError adds a hint to an error of decoding a stored object, which selectors and redaction require.
func DecodeError(path string, err error) error {
	if errors.Is(err, snapshot.ErrUndecodable) {
		return command.WithHint(err,
			"larder knows the Go types of Kubernetes only; name other resources, or take it without selectors and redaction")
	}
	return ReadError(path, err)
}
