package report

import (
	_ "embed" // for page.md
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/scenario"
	"github.com/larder-dev/larder/bench/internal/subject"
)

//go:embed page.md
var pageText string

var page = template.Must(template.New("page.md").Parse(pageText))

// Markdown writes the page for the documentation: the medians, one table for each scenario. Text also has the minimum
// and maximum of each figure.
func Markdown(out io.Writer, r Record) error {
	rows := r.Rows()
	data := struct {
		Record
		Objects, Embedded, Verdict string
	}{r, goalsFor(), embedded(), verdict(rows)}
	errs := page.Execute(out, data)
	for _, s := range scenario.All() {
		of := slices.DeleteFunc(slices.Clone(rows), func(row Row) bool { return row.Scenario != s.Name })
		if len(of) > 0 {
			errs = errors.Join(errs, writeScenario(out, s, of))
		}
	}
	return errs
}

func embedded() string {
	var names []string
	for _, s := range scenario.All() {
		if s.Embedded {
			names = append(names, "`"+s.Name+"`")
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

func writeScenario(out io.Writer, s scenario.Scenario, rows []Row) error {
	fmt.Fprintf(out, "\n## %s\n\n", strings.ToUpper(s.Title[:1])+s.Title[1:])
	for _, c := range commands(s.Name, rows) {
		fmt.Fprintf(out, "- `%s`\n", c)
	}
	fmt.Fprintln(out)
	columns := []string{
		"objects", "figure", "Larder, All", "Larder, None", "client-go", "client-go, LIST", "compared with", "ratio", "goal",
	}
	fmt.Fprintf(out, "| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	var err error
	for len(rows) > 0 {
		first := rows[0]
		same := func(r Row) bool {
			return r.Place == first.Place && r.Metric.Key == first.Metric.Key && r.Metric.Against == first.Metric.Against
		}
		var residencies []Row
		for _, r := range rows {
			if same(r) {
				residencies = append(residencies, r)
			}
		}
		rows = slices.DeleteFunc(rows, same)
		// A row whose reference was not measured is omitted: it would repeat the figures of another row.
		if against := first.Metric.Against; first.Ratio != nil || against == "" || against == scenario.Nothing {
			_, err = fmt.Fprintf(out, "| %s |\n", strings.Join(cells(residencies), " | "))
		}
	}
	return err
}

func cells(rows []Row) []string {
	first := rows[0]
	objects := count(float64(first.N)) + " " + first.Kind
	if first.Dynamic {
		objects += ", dynamic"
	}
	larder := map[string]string{}
	var others, ratios, goals []string
	for _, r := range rows {
		larder[r.Residency] = r.median(&r.Larder)
		others, ratios = append(others, r.other()), append(ratios, ratioText(r.Ratio))
		if r.Goal != "" {
			goals = append(goals, r.Goal+": "+r.verdict())
		}
	}
	return []string{
		objects, first.Figure, larder[subject.All], larder[subject.None], first.median(first.ClientGo),
		first.median(first.ClientGoList), joined(others), joined(ratios), joined(goals),
	}
}

// median formats a median, with the number of runs if that is unexpected; "" for nil.
func (r Row) median(s *Summary) string {
	if s == nil {
		return ""
	}
	text := Figure(s.Median, r.Metric.Unit)
	if runs := r.ofRuns(s); runs != "" {
		text += " (" + runs + ")"
	}
	return text
}

func joined(texts []string) string { return strings.Join(slices.Compact(texts), "; ") }

// commands returns the commands that measure a scenario again, one for each kind of object, with the commit of each.
func commands(name string, rows []Row) []string {
	var all []string
	for _, k := range load.Kinds {
		var last Asked
		var numbers []int
		add := func() {
			if len(numbers) > 0 {
				all = append(all, last.Command(name, k.Name, numbers...)+"`, commit `"+last.Commit)
			}
		}
		for _, r := range rows {
			switch {
			case r.Kind != k.Name || r.asked == last && slices.Contains(numbers, r.N):
			case r.asked == last && k.Name == scenario.GoalsFor:
				numbers = append(numbers, r.N)
			default:
				add()
				last, numbers = r.asked, []int{r.N}
			}
		}
		add()
	}
	return all
}
