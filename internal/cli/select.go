package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

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
		return "", "", usagef("label selector %q: %w", byLabel, err)
	}
	f, err := fields.ParseSelector(byField)
	if err != nil {
		return "", "", usagef("field selector %q: %w", byField, err)
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

// redactFlag is --redact.
type redactFlag struct{ what []string }

func (f *redactFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.what, "redact", nil,
		"replace values by REDACTED. `WHAT` is secrets, configmaps (their data), annotations=PATTERN, env=PATTERN (* is "+
			"any text), or managedfields, "+
			"which are removed; several with commas")
}

// redaction is what --redact asks for.
func (f *redactFlag) redaction() (snapshot.Redaction, error) {
	var r snapshot.Redaction
	for _, what := range f.what {
		name, pattern, hasPattern := strings.Cut(what, "=")
		wants := name == "annotations" || name == "env"
		switch {
		case wants && pattern == "":
			return r, usagef("--redact %s needs a pattern, as in %[1]s=*token*; %[1]s=* is all of them", name)
		case hasPattern && !wants:
			return r, usagef("--redact %s takes no pattern", name)
		}
		switch strings.ToLower(name) {
		case "secrets":
			r.Secrets = true
		case "configmaps":
			r.ConfigMaps = true
		case "managedfields":
			r.ManagedFields = true
		case "annotations":
			r.Annotations = append(r.Annotations, pattern)
		case "env":
			r.Env = append(r.Env, pattern)
		default:
			return r,
				usagef(
					"--redact does not know %q; it takes secrets, configmaps, annotations=PATTERN, env=PATTERN and managedfields",
					name)
		}
	}
	return r, nil
}

// outError is the error of an object that had to be looked into and cannot be.
func outError(path string, err error) error {
	if errors.Is(err, snapshot.ErrUndecodable) {
		return withHint(err,
			"larder knows the Go types of Kubernetes only; name other resources, or take it without selectors and redaction")
	}
	return readError(path, err)
}

// countedObjects is a number of objects with its noun.
func countedObjects(n int) string { return counted(n, "object") }

// within says what of how many collections: "12 objects in 3 collections".
func within(objects, collections int) string {
	return fmt.Sprintf("%s in %s", countedObjects(objects), counted(collections, "collection"))
}
