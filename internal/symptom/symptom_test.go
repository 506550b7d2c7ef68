package symptom

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/reflector"
)

const root = "../.."

func sections(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	parts := regexp.MustCompile(`(?m)^((?:<a id="[a-z]+"></a>\n)+)## `).FindAllStringSubmatchIndex(string(text), -1)
	for i, at := range parts {
		end := len(text)
		if i+1 < len(parts) {
			end = parts[i+1][0]
		}
		for _, id := range regexp.MustCompile(`id="([a-z]+)"`).FindAllStringSubmatch(string(text[at[2]:at[3]]), -1) {
			all[id[1]] = strings.Join(strings.Fields(string(text[at[1]:end])), " ")
		}
	}
	if len(all) < 20 {
		t.Fatalf("docs/troubleshooting.md has %d sections", len(all))
	}
	return all
}

// exported returns the names of the exported sentinel errors below dir, without internal packages, and their texts if
// these are in the source code.
func exported(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "internal" || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			vars, ok := decl.(*ast.GenDecl)
			if !ok || vars.Tok != token.VAR {
				continue
			}
			for _, spec := range vars.Specs {
				for i, name := range spec.(*ast.ValueSpec).Names {
					if strings.HasPrefix(name.Name, "Err") {
						all[f.Name.Name+"."+name.Name] = textOf(spec.(*ast.ValueSpec), i)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func textOf(spec *ast.ValueSpec, i int) string {
	if call, ok := spec.Values[i].(*ast.CallExpr); ok && len(call.Args) == 1 {
		if text, ok := call.Args[0].(*ast.BasicLit); ok {
			text, _ := strconv.Unquote(text.Value)
			return text
		}
	}
	return ""
}

func TestEveryErrorIsExplained(t *testing.T) {
	all := sections(t)
	named := map[string]bool{}
	for _, s := range Errors {
		named[s.Name] = true
		text := "`" + s.Err.Error() + "`"
		if long, rest, ok := strings.Cut(s.Err.Error(), " ("); ok && rest != "" {
			// The text in parentheses is the remedy, which the section need not repeat.
			text = "`" + long + "`"
		}
		if section := all[s.Section]; !strings.Contains(section, "`"+s.Name+"`") ||
			!strings.Contains(section, text) && !strings.Contains(section, beginning(s.Err)) {
			t.Errorf("section %s does not have %s with %s", s.Section, s.Name, text)
		}
	}
	found := 0
	for _, dir := range []string{"codec", "entry", "fifo", "informer", "metrics", "reflector", "seed", "serve", "snapshot",
		"store"} {
		for name, text := range exported(t, dir) {
			found++
			if strings.HasPrefix(name, "controllerruntime.") {
				// The errors of another Go module are not in Errors.
				if s := all[Program]; !strings.Contains(s, "`"+name+"`") || !strings.Contains(s, "`"+text+"`") {
					t.Errorf("section %s does not have %s", Program, name)
				}
			} else if !named[name] {
				t.Errorf("%s is not among Errors", name)
			}
		}
	}
	if found < len(Errors) {
		t.Errorf("%d errors were found, and %d are explained", found, len(Errors))
	}
}

func beginning(err error) string {
	text := err.Error()
	if i := strings.IndexAny(text, ",;:"); i > 20 {
		return "`" + text[:i]
	}
	return "`" + text + "`"
}

// TestEveryReasonIsExplained checks that docs/troubleshooting.md explains every reason of a list, every cause of an
// incident, and every server change that an informer may not detect.
func TestEveryReasonIsExplained(t *testing.T) {
	all := sections(t)
	for _, reason := range reflector.RelistReasons() {
		if !strings.Contains(all["relists"], fmt.Sprintf("| `%s` |", reason)) {
			t.Errorf("section relists does not have %s", reason)
		}
	}
	for _, cause := range audit.Causes() {
		if !strings.Contains(all["incidents"], fmt.Sprintf("| `%s` |", cause)) {
			t.Errorf("section incidents does not have %s", cause)
		}
	}
	entries := []string{"another cluster on the same address", "a changed schema of the resource", "a changed transform",
		"a server that was restored and has overtaken us", "a shard"}
	var source strings.Builder
	for _, file := range []string{"informer/internal/attributes/attributes.go", "informer/status.go"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	for _, entry := range entries {
		if !strings.Contains(source.String(), `"`+entry) {
			t.Errorf("nothing says %q any more", entry)
		}
		if !strings.Contains(all["unguarded"], "| `"+entry+"` |") {
			t.Errorf("section unguarded does not have %q", entry)
		}
	}
	count := strings.Count(source.String(), "s.Unguarded = append(") + strings.Count(source.String(), "const what") +
		len(regexp.MustCompile(`(?m)^\t[A-Z][a-z]+ += "a`).FindAllString(source.String(), -1))
	if count != len(entries) {
		t.Errorf("%d things may go unnoticed, and %d are known here", count, len(entries))
	}
	if n := strings.Count(all["unguarded"], "| `"); n != len(entries) {
		t.Errorf("section unguarded has %d entries of %d", n, len(entries))
	}
}

// TestSections checks that every section to which an error links exists in docs/troubleshooting.md.
func TestSections(t *testing.T) {
	all := sections(t)
	text, err := os.ReadFile(filepath.Join(root, "docs/troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range regexp.MustCompile(`\]\(#([a-z]+)\)`).FindAllStringSubmatch(string(text), -1) {
		if all[link[1]] == "" {
			t.Errorf("there is no section %s", link[1])
		}
	}
	for _, s := range Errors {
		if of := Of(fmt.Errorf("x: %w", s.Err)); s.Section != Program && of != Page+"#"+s.Section {
			t.Errorf("%s leads to %s", s.Name, of)
		}
	}
	if Of(nil) != "" || Of(fs.ErrNotExist) != "" {
		t.Error("an error without a section leads somewhere")
	}
}
