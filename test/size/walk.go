package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// architecture is the page with the function lists, relative to the repository's root.
const architecture = "docs/architecture.md"

// Walk lists the functions that an event or a restart passes: the tables under one heading of docs/architecture.md,
// with one row per function.
type Walk struct {
	Name  string
	Steps []Step
	// Stated has the totals that the page states in the sentence above the tables.
	Stated struct{ Functions, Files, Locks int }
	// StatedAt is the line number of the sentence with the totals, or 0 if the sentence is missing.
	StatedAt int
}

// Step is a table row: | function | file | reached | lock |.
type Step struct {
	Line int
	// Function is pkg.Func or pkg.Type.Method, where pkg is the last element of the package's path.
	Function string
	File     string
	// From is the function that reaches Function: the previous row's by default, or X if the row says "from X". It is
	// empty in the first row, and for a function that the user's program calls.
	From string
	// Returns is true if Function calls From, and continues with the result of From ("calls X").
	Returns bool
	// Via is the field pkg.Type.field in which From passes its result on ("through X"). It is empty if From calls
	// Function.
	Via string
	// Locks are the mutexes that Function takes itself, as pkg.Type.field.
	Locks []string
}

// byProgram is the "reached" cell of a function that the user's program calls.
const byProgram = "called by the program"

var (
	heading = regexp.MustCompile(`^## (The way of .*)$`)
	stated  = regexp.MustCompile(`(\d+) functions in (\d+) files, and (\d+) locks`)
	quoted  = regexp.MustCompile("`([^`]+)`")
)

func readWalks(path string) ([]*Walk, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var walks []*Walk
	var w *Walk
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "## ") {
			w = nil
			if m := heading.FindStringSubmatch(line); m != nil {
				w = &Walk{Name: m[1]}
				walks = append(walks, w)
			}
		}
		if w == nil {
			continue
		}
		if m := stated.FindStringSubmatch(line); m != nil {
			w.StatedAt = i + 1
			if _, err := fmt.Sscan(strings.Join(m[1:], " "), &w.Stated.Functions, &w.Stated.Files, &w.Stated.Locks); err != nil {
				return nil, err
			}
		}
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 4 {
			return nil, fmt.Errorf("%s:%d: a row has four cells: function, file, reached, lock", path, i+1)
		}
		if err := w.add(i+1, cells); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
	}
	return walks, nil
}

func (w *Walk) add(line int, cells []string) error {
	names := make([][]string, len(cells))
	for i, cell := range cells {
		for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
			names[i] = append(names[i], m[1])
		}
	}
	if len(names[0]) != 1 || len(names[1]) != 1 {
		return fmt.Errorf("a row names one function and one file, each in backquotes")
	}
	s := Step{Line: line, Function: names[0][0], File: names[1][0], Locks: names[3]}
	if len(w.Steps) > 0 {
		s.From = w.Steps[len(w.Steps)-1].Function
	}
	how := strings.Fields(cells[2])
	if strings.TrimSpace(cells[2]) == byProgram {
		s.From, how = "", nil
	}
	for i := 0; i+1 < len(how); i += 2 {
		name := strings.Trim(how[i+1], "`,")
		switch how[i] {
		case "from", "calls":
			s.From, s.Returns = name, how[i] == "calls"
			if !slices.ContainsFunc(w.Steps, func(before Step) bool { return before.Function == name }) {
				return fmt.Errorf("no row before this one has %s", name)
			}
		case "through":
			s.Via = name
		default:
			return fmt.Errorf("reached %q: say nothing, from `function`, calls `function`, or through `field`",
				strings.TrimSpace(cells[2]))
		}
	}
	w.Steps = append(w.Steps, s)
	return nil
}

func (w *Walk) functions() []string {
	return w.each(func(s Step) []string { return []string{s.Function} })
}

func (w *Walk) files() []string { return w.each(func(s Step) []string { return []string{s.File} }) }

func (w *Walk) locks() []string { return w.each(func(s Step) []string { return s.Locks }) }

func (w *Walk) each(of func(Step) []string) []string {
	var all []string
	for _, s := range w.Steps {
		all = append(all, of(s)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// complete returns the page with files, locks and totals from the code. It does not change the column "reached", which
// people write.
func (c *code) complete(text string, walks []*Walk) string {
	lines := strings.Split(text, "\n")
	for _, w := range walks {
		for i := range w.Steps {
			s := &w.Steps[i]
			f := c.funcs[s.Function]
			if f == nil {
				continue
			}
			s.File, s.Locks = f.file, f.locks
			locks := " "
			if len(f.locks) > 0 {
				locks = " `" + strings.Join(f.locks, "`, `") + "` "
			}
			cells := strings.Split(lines[s.Line-1], "|")
			cells[2], cells[4] = " `"+f.file+"` ", locks
			lines[s.Line-1] = strings.Join(cells, "|")
		}
		if w.StatedAt > 0 {
			lines[w.StatedAt-1] = stated.ReplaceAllString(lines[w.StatedAt-1],
				fmt.Sprintf("%d functions in %d files, and %d locks", len(w.functions()), len(w.files()), len(w.locks())))
		}
	}
	return strings.Join(lines, "\n")
}
