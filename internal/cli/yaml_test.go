package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/larder-dev/larder/snapshot"
)

// TestYAMLKeepsEveryCharacter checks that characters that YAML allows only as escapes neither fail the command nor
// change when the YAML is parsed.
func TestYAMLKeepsEveryCharacter(t *testing.T) {
	name := "next\u0085line\u2028csi\u009bdel\x7fesc\x1bbom\ufeffnone\uffff\ufffe\U0001f600"
	dir := t.TempDir()
	file, out := filepath.Join(dir, "x.larder"), filepath.Join(dir, "out")
	writeSnapshot(t, file, snapshot.Header{}, widgetsOf(1, func(*snapshot.Collection) {}, "a/"+name))
	nameIn := func(text string) string {
		var list struct {
			Metadata struct{ Name string }
			Items    []struct{ Metadata struct{ Name string } }
		}
		if err := yaml.Unmarshal([]byte(text), &list); err != nil {
			t.Errorf("%v: %q", err, text)
		}
		if len(list.Items) == 1 {
			return list.Items[0].Metadata.Name
		}
		return list.Metadata.Name
	}
	for _, format := range []string{"yaml", "kyaml"} {
		for _, args := range [][]string{{"get", "widgets", "-A"}, {"get", "widgets", "-n", "a", name}} {
			code, text, errs := runs(t.Context(), append(args, "-o", format, "--from", file)...)
			if got := nameIn(text); code != 0 || got != name {
				t.Errorf("%q as %s: exit %d, %s, %q", args, format, code, errs, got)
			}
		}
	}
	if code, _, errs := runs(t.Context(), "snapshot", "export", out, "--from", file); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	found := 0
	if err := filepath.WalkDir(out, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		found++
		text, err := os.ReadFile(path)
		if got := nameIn(string(text)); got != name {
			t.Errorf("exported as %q", got)
		}
		return err
	}); err != nil || found != 1 {
		t.Errorf("%d files, %v", found, err)
	}
}
