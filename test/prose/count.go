package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// phrases matches relative clauses and some verbs that writers use in place of a technical term.
var phrases = regexp.MustCompile(`(?i)\b(?:` + strings.Join([]string{
	`what (?:is|are|has|have|was|were|it|they|he|that|this|the|a|an|comes?|came|covers?|follows?|each|every|nobody|no)\b`,
	`whatever`, `whoever`, `whomever`, `nobody`, `somebody`, `everybody`,
	`those (?:who|that|of)`, `the (?:one|ones) (?:that|who|before|after)`, `that of\b`, `(?:that|which) (?:is|are) of\b`,
	`who (?:has|have|is|may|asks?|reads?|commits?|watch(?:es)?|knows?)\b`,
	`such (?:a|an|one)\b`, `as (?:well|it) (?:came|comes|is)\b`,
	`(?:is|are|was|were|be|been) told\b`, `tells? of\b`, `lets? go\b`, `brought about`, `goes by\b`, `heeds?\b`,
}, "|") + `)|, else\b|(?:^|[.:;] )Else\b`)

// quoted matches code and program output inside a sentence. They are not counted.
var quoted = regexp.MustCompile("`[^`]*`|\"[^\"]*\"")

// replaced are directories whose prose is not counted, because their code will soon be replaced.
var replaced = []string{"store/history", "store/internal/changelog"}

// skipped are directories without prose of this project.
var skipped = []string{"testdata", "node_modules", "vendor", "dist", "bin"}

type hit struct {
	file   string
	line   int
	phrase string
	text   string
}

// part is the counted prose: the comments of one package, or one document.
type part struct {
	name  string
	words int
	hits  []hit
}

func (p *part) rate() float64 { return 1000 * float64(len(p.hits)) / float64(max(p.words, 1)) }

// count reads the Go files and documents below root, and returns their parts by name. The comments of a package and of
// its tests are one part; each document is a part. CHANGELOG.md is not counted: its entries are not rewritten.
func count(root string) ([]*part, error) {
	parts := map[string]*part{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") && rel != "."
			if hidden || slices.Contains(skipped, d.Name()) || slices.Contains(replaced, rel) {
				return fs.SkipDir
			}
			return nil
		}
		name := rel
		switch path.Ext(rel) {
		case ".go":
			name = path.Dir(rel)
		case ".md":
			if rel == "CHANGELOG.md" {
				return nil
			}
		default:
			return nil
		}
		paragraphs, err := readParagraphs(file)
		if err != nil {
			return err
		}
		p := parts[name]
		if p == nil {
			p = &part{name: name}
			parts[name] = p
		}
		for _, lines := range paragraphs {
			p.add(rel, lines)
		}
		return nil
	})
	sorted := make([]*part, 0, len(parts))
	for _, p := range parts {
		sorted = append(sorted, p)
	}
	slices.SortFunc(sorted, func(a, b *part) int { return strings.Compare(a.name, b.name) })
	return sorted, err
}

type line struct {
	number int
	text   string
}

// add counts the words and phrases of a paragraph. A phrase may begin on one line and end on the next.
func (p *part) add(file string, lines []line) {
	var text strings.Builder
	starts := make([]int, len(lines))
	for i, l := range lines {
		if i > 0 {
			text.WriteByte(' ')
		}
		starts[i] = text.Len()
		text.WriteString(l.text)
	}
	// Quoted text is replaced by text of the same length, so that offsets still lead to the right lines.
	whole := quoted.ReplaceAllStringFunc(text.String(), func(s string) string { return strings.Repeat("x", len(s)) })
	p.words += len(strings.Fields(whole))
	for _, at := range phrases.FindAllStringIndex(whole, -1) {
		i, exact := slices.BinarySearch(starts, at[0])
		if !exact {
			i--
		}
		p.hits = append(p.hits, hit{file, lines[i].number, whole[at[0]:at[1]], lines[i].text})
	}
}

func readParagraphs(file string) ([][]line, error) {
	if strings.HasSuffix(file, ".md") {
		return documentParagraphs(file)
	}
	return commentParagraphs(file)
}

func documentParagraphs(file string) ([][]line, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all [][]line
	var current []line
	end := func() {
		if len(current) > 0 {
			all = append(all, current)
		}
		current = nil
	}
	code := false
	for i, s := range strings.Split(string(text), "\n") {
		s = strings.TrimSpace(s)
		fence := strings.HasPrefix(s, "```")
		if fence {
			code = !code
		}
		if fence || code || s == "" || strings.HasPrefix(s, "|") {
			end()
			continue
		}
		current = append(current, line{i + 1, s})
	}
	end()
	return all, nil
}

// commentParagraphs returns the comments of a Go file without directives, code blocks and expected output.
func commentParagraphs(file string) ([][]line, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all [][]line
	for _, group := range f.Comments {
		if lines := commentLines(fset, group); len(lines) > 0 {
			all = append(all, lines)
		}
	}
	return all, nil
}

var directive = regexp.MustCompile(`^//(?:[a-z]+:|nolint|line |export |extern )`)

func commentLines(fset *token.FileSet, group *ast.CommentGroup) []line {
	var lines []line
	for _, c := range group.List {
		if directive.MatchString(c.Text) {
			continue
		}
		text := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(c.Text, "//"), "/*"), "*/")
		for i, s := range strings.Split(text, "\n") {
			if strings.HasPrefix(s, "\t") || strings.HasPrefix(s, " \t") {
				continue // indented text is code
			}
			s = strings.TrimSpace(s)
			if strings.HasPrefix(s, "Output:") || strings.HasPrefix(s, "Unordered output:") {
				return lines
			}
			if s != "" {
				lines = append(lines, line{fset.Position(c.Pos()).Line + i, s})
			}
		}
	}
	return lines
}
