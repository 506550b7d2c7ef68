package cli

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
)

// selectFlags say which objects a command takes. The resources are its arguments.
type selectFlags struct {
	namespaces     []string
	labels, fields string
}

func (f *selectFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVarP(&f.namespaces, "namespace", "n", nil,
		"take objects of this `NAMESPACE` only; may be given again. Default is all, and what is in none")
	cmd.Flags().StringVarP(&f.labels, "selector", "l", "", "label `SELECTOR`: take what matches only")
	cmd.Flags().StringVar(&f.fields, "field-selector", "", "field `SELECTOR`: take what matches only")
}

func (f *selectFlags) check() error {
	_, _, err := canonicalSelectors(f.labels, f.fields)
	return err
}

// canonicalSelectors returns a label and a field selector in canonical form.
func canonicalSelectors(byLabel, byField string) (string, string, error) {
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

// filter is what is taken of the collections; args are resources and categories as the user calls them, none are all.
func (f *selectFlags) filter(path string, stored []source.Collection, args []string) (snapshot.Filter, error) {
	out := snapshot.Filter{Namespaces: f.namespaces, Labels: f.labels, Fields: f.fields}
	known := storedResources(stored)
	if err := onlyResources(args); err != nil {
		return out, err
	}
	for _, arg := range splitArgs(args) {
		found := namedBy(arg, stored)
		if len(found) == 0 {
			return out, notStored(path, stored, request{resource: arg})
		}
		for _, r := range found {
			if name := filterName(r, known); !slices.Contains(out.Resources, name) {
				out.Resources = append(out.Resources, name)
			}
		}
	}
	return out, nil
}

// namedBy returns the stored resources that an argument names: one, or those of a category.
func namedBy(arg string, stored []source.Collection) []resource {
	known := storedResources(stored)
	found := matchResource(arg, known)
	for _, name := range membersOf(arg, stored) {
		found = append(found, matchResource(name, known)...)
	}
	return found
}

// filterName names one resource of those that are known: a plural alone would also name those of other groups, and a
// group those of all versions.
func filterName(r resource, known []resource) string {
	same := 0
	for _, k := range known {
		if k.Resource == r.Resource {
			same++
		}
	}
	if same == 1 {
		return r.String()
	}
	return r.full()
}

// outError is the error of an object that had to be looked into and cannot be.
func outError(path string, err error) error {
	if errors.Is(err, snapshot.ErrUndecodable) {
		return command.WithHint(err,
			"larder knows the Go types of Kubernetes only; name other resources, or take it without selectors and redaction")
	}
	return readError(path, err)
}
