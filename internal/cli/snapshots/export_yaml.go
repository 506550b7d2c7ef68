package snapshots

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/yamldir"
	"github.com/larder-dev/larder/snapshot"
)

type yamlExport struct{ dir *yamldir.Dir }

func (y yamlExport) object(c snapshot.Collection, object map[string]any) error {
	u := unstructured.Unstructured{Object: object}
	path := yamldir.Path(u.GetNamespace(), c.Identity.GroupResource().String(), u.GetName())
	text, err := command.ToYAML(object)
	if err != nil {
		// The error does not wrap its cause, which may quote the object's content.
		return fmt.Errorf("%s cannot be written as YAML", path)
	}
	return y.dir.Put(path, text)
}

func nothingExported(from string) error {
	return command.WithHint(fmt.Errorf("nothing of %s is selected for the export", from),
		"check the resources, -n, -l and --field-selector; larder status --from %s lists what there is", from)
}

func unusableDir(dir string, err error) error {
	hint := "name a directory that you may write to, or one that is not there yet"
	if errors.Is(err, yamldir.ErrNotEmpty) {
		hint = "remove them, or name a directory that is not there yet; what begins with a dot, such as .git, may stay"
	}
	return command.WithHint(fmt.Errorf("no export can be made in %s: %w", dir, err), "%s", hint)
}
