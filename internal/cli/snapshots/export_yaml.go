package snapshots

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/yamldir"
	"github.com/larder-dev/larder/snapshot"
)

// exportFiles is what files are put in: a yamldir.Dir, or its rehearsal.
type exportFiles interface {
	Cover(s yamldir.Scope)
	Part(s yamldir.Scope)
	Has(file string) bool
	Keep(file string)
	Put(file, selection string, text []byte) error
}

// yamlExport writes a file for each object.
type yamlExport struct {
	files exportFiles
	// make is called before the first file.
	make func() error
	// stored are the collections as they are stored, and filter what is taken of them.
	stored map[string]snapshot.Collection
	filter snapshot.Filter
	now    yamldir.Scope
}

func newYAMLExport(ctx context.Context, src snapshot.Source, filter snapshot.Filter) (*yamlExport, error) {
	all, err := src.Collections(ctx)
	if err != nil {
		return nil, err
	}
	y := &yamlExport{stored: map[string]snapshot.Collection{}, filter: filter}
	for _, c := range all {
		y.stored[c.Identity.ID()] = c
	}
	return y, nil
}

// begin implements exportTo. What is missing from a list that was never finished need not be gone.
func (y *yamlExport) begin(c snapshot.Collection) {
	y.now = exportScope(y.stored[c.Identity.ID()], y.filter)
	if c.Complete {
		y.files.Cover(y.now)
	} else {
		y.files.Part(y.now)
	}
}

// exportScope is what of a directory a collection is, as it is stored, if a filter is applied.
func exportScope(c snapshot.Collection, f snapshot.Filter) yamldir.Scope {
	s := yamldir.Scope{Resource: c.Identity.GroupResource().String(), Namespaces: f.Namespaces}
	if c.Identity.Namespace != "" {
		s.Namespaces = []string{c.Identity.Namespace}
	}
	within := c.Identity
	within.Namespace = ""
	parts := slices.Clone(c.Filtered)
	if text := input.ScopeOfID(within); text != "all" {
		parts = append(parts, text)
	}
	for _, asked := range []struct{ name, value string }{{"-l ", f.Labels}, {"--field-selector ", f.Fields}} {
		if asked.value != "" {
			parts = append(parts, asked.name+asked.value)
		}
	}
	s.Selection = strings.Join(strings.Fields(strings.Join(parts, "; ")), " ")
	return s
}

// unknown implements exportTo.
func (y *yamlExport) unknown(c snapshot.Collection, key string) {
	namespace, name := input.SplitKey(key)
	y.files.Keep(yamldir.Path(namespace, c.Identity.GroupResource().String(), name))
}

// object implements exportTo.
func (y *yamlExport) object(c snapshot.Collection, object map[string]any) error {
	u := unstructured.Unstructured{Object: object}
	path := yamldir.Path(u.GetNamespace(), c.Identity.GroupResource().String(), u.GetName())
	if y.files.Has(path) {
		return nil
	}
	text, err := command.ToYAML(object)
	if err != nil {
		return fmt.Errorf("%s cannot be written as YAML", path) // the reason may quote it
	}
	if err := y.make(); err != nil {
		return err
	}
	return y.files.Put(path, y.now.Selection, text)
}

// nothingExported is the error of an export that would be empty.
func nothingExported(from string) error {
	return command.WithHint(fmt.Errorf("nothing of %s is selected for the export, and nothing was changed", from),
		"check the resources, -n, -l and --field-selector; larder status --from %s lists what there is", from)
}

// unusableDir is the error of a directory that nothing can be written to.
func unusableDir(dir string, err error) error {
	return command.WithHint(fmt.Errorf("no export can be made in %s: %w", dir, err),
		"name a directory that you may write to, or one that is not there yet")
}

// mostConflicts is how many edited files are named.
const mostConflicts = 5

// editedFiles is the error of files that an export would lose the edits of.
func editedFiles(dir string, files []string) error {
	named := strings.Join(files[:min(len(files), mostConflicts)], ", ")
	if more := len(files) - mostConflicts; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return command.WithHint(fmt.Errorf("%s: edited since the last export, which this one would undo: %s", dir, named),
		"nothing was changed: move the edited files away, or remove them, and export again")
}

// dirError adds to an error of a directory what to do.
func dirError(dir string, err error) error {
	switch {
	case errors.Is(err, yamldir.ErrForeign):
		return command.WithHint(fmt.Errorf("%s: %w", dir, err), "move it away, or name another directory")
	case errors.Is(err, yamldir.ErrEdited):
		return command.WithHint(fmt.Errorf("%s: %w", dir, err), "move it away, or remove it, and export again")
	}
	return err
}
