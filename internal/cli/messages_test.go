package cli

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/clitest"
)

// TestMessagesNameFlags checks that all texts of the command mention only existing flags (issue 37). A flag in a
// command line (larder get -A) must belong to that command, and any other flag to some command. The scripts of
// cmd/larder check that a message mentions flags of the command that prints it.
func TestMessagesNameFlags(t *testing.T) {
	root := newRoot(clitest.IO(&bytes.Buffer{}))
	var all []*cobra.Command
	var collect func(cmd *cobra.Command)
	collect = func(cmd *cobra.Command) {
		all = append(all, cmd)
		for _, sub := range cmd.Commands() {
			collect(sub)
		}
	}
	collect(root)
	has := func(of *cobra.Command, flag string) bool {
		if of != nil {
			return clitest.Has(of, flag)
		}
		for _, cmd := range all {
			if clitest.Has(cmd, flag) {
				return true
			}
		}
		return false
	}
	texts := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			path == "completion_bash.go" { // skipped, because its text is a bash script and not a message
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, ok := literal(e)
			for line := range strings.Lines(text) {
				texts++
				for _, flag := range clitest.UnknownFlagsIn(line, has, root) {
					t.Errorf("%s: there is no %s: %s", path, flag, line)
				}
			}
			return !ok
		})
		return nil
	})
	if err != nil || texts < 1000 {
		t.Errorf("%d texts, %v", texts, err)
	}
}

func literal(e ast.Expr) (text string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, _ = strconv.Unquote(e.Value)
			return text, true
		}
	case *ast.BinaryExpr:
		a, isA := literal(e.X)
		b, isB := literal(e.Y)
		return a + b, e.Op == token.ADD && (isA || isB)
	}
	return "", false
}
