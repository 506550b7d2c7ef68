package report

import (
	"fmt"
	"io"
	"path"
	"strings"
	"text/tabwriter"

	"github.com/larder-dev/larder/bench/internal/scenario"
)

// Text writes the rows as tables, with the commands that measure them again, and what became of the goals below them.
func Text(out io.Writer, r Record) error {
	rows := r.Rows()
	fmt.Fprintf(out, "%s\n%s; %s; commit %s\n", r.Command, r.Machine, r.Server, r.Commit)
	fmt.Fprintln(out, "Medians (least – most). Ratios are Larder to client-go's default, or to what is named.")
	if err := writeTables(out, rows); err != nil {
		return err
	}
	hint := ""
	if mostObjects(rows, scenario.GoalsFor) != scenario.GoalsN {
		hint = fmt.Sprintf(" The goals are set for %s %s: with another number a verdict is a hint.",
			count(scenario.GoalsN), scenario.GoalsFor)
	}
	_, err := fmt.Fprintf(out, "\n%s (%s).%s\n", tallyOf(rows, scenario.All()), judged(rows), hint)
	return err
}

// Markdown writes the page of the documentation. pictures are links from where the page is.
func Markdown(out io.Writer, r Record, pictures []string) error {
	rows := r.Rows()
	fmt.Fprintf(out, `# How fast is Larder beside client-go?

Made by %s
from %s: do not edit.
%s; %s; commit %s.

Larder and client-go's informer v0.37 do the same on the same server, in turn, each in a fresh process. Figures are
medians, the least and the most in parentheses. client-go's default asks for the state by a watch (WatchList); LIST is
the same with %s. Ratios are Larder to client-go's default, or to what is named.
RssAnon is memory of the process alone; mapped pages belong to the kernel, which takes them back as it likes. Where a
median is of more or fewer runs than its command asks for, it says so.

Goals are set for %s %s. That of the policy Resumed is to hold whatever the number, and is judged for widgets,
too. Those of RssAnon are for the residencies that do not hold all objects, Bounded and None: what All needs is
reported.

In all rows of a restart Larder's file is in the kernel's page cache: the process has been restarted, not the machine,
after whose reboot the file would have to be read from the disk. The scenarios
%s run on the embedded API server, as a real one does not make so
many changes a second, and so do those of widgets.

%s (%s).
A goal is met if every residency that it is for meets it; each residency has a row, with a verdict of its own.
`,
		code(r.Command), code("bench/results/"+r.ID+".json"), r.Machine, r.Server, r.Commit,
		code("KUBE_FEATURE_WatchListClient=false"), count(scenario.GoalsN), scenario.GoalsFor, embedded(),
		tallyOf(rows, scenario.All()), judged(rows))
	for _, picture := range pictures {
		fmt.Fprintf(out, "\n![%s](%s)\n", strings.TrimSuffix(path.Base(picture), ".svg"), picture)
	}
	return writeTables(out, rows)
}

func code(text string) string { return "`" + text + "`" }

// embedded names the scenarios of the embedded server.
func embedded() string {
	var names []string
	for _, s := range scenario.All() {
		if s.Embedded {
			names = append(names, code(s.Name))
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// writeTables writes a table for each scenario and number of objects, with the command that makes it. Columns are
// aligned: tables are read on a terminal, too.
func writeTables(out io.Writer, rows []Row) error {
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	last, command := "", ""
	for _, r := range rows {
		head := fmt.Sprintf("%s, %s %s", r.Title, count(float64(r.N)), r.Kind)
		if head != last || r.Command != command {
			last, command = head, r.Command
			fmt.Fprintf(w, "\n## %s\n\n%s\n\n", strings.ToUpper(head[:1])+head[1:], code(r.Command))
			line(w, "figure", "residency", "Larder", "client-go", "client-go, LIST", "compared with", "ratio", "goal", "")
			line(w, "---", "---", "---", "---", "---", "---", "---", "---", "---")
		}
		line(w, r.Figure, r.Residency, r.spread(&r.Larder), r.spread(r.ClientGo), r.spread(r.ClientGoList),
			r.other(), ratioText(r.Ratio), r.Goal, r.verdict())
	}
	return w.Flush()
}

func line(w io.Writer, cells ...string) { fmt.Fprintf(w, "| %s\t|\n", strings.Join(cells, "\t| ")) }

func (r Row) verdict() string {
	switch {
	case r.Met == nil:
		return ""
	case *r.Met:
		return "met"
	}
	return "MISSED, " + r.Missed
}

func (r Row) other() string {
	if r.Reference == nil {
		return ""
	}
	text := Figure(r.Reference.Median, r.Metric.Unit) + ", " + r.Metric.Against
	if runs := r.ofRuns(r.Reference); runs != "" {
		text += " (" + runs + ")"
	}
	return text
}

// spread writes a median with what it is of.
func (r Row) spread(s *Summary) string {
	if s == nil {
		return ""
	}
	unit := r.Metric.Unit
	var of []string
	if s.Min != s.Max {
		of = append(of, Figure(s.Min, unit)+" – "+Figure(s.Max, unit))
	}
	if runs := r.ofRuns(s); runs != "" {
		of = append(of, runs)
	}
	if of == nil {
		return Figure(s.Median, unit)
	}
	return fmt.Sprintf("%s (%s)", Figure(s.Median, unit), strings.Join(of, ", "))
}

// ofRuns says how many runs a median is of, where that is not what the row's command asks for: some have failed.
func (r Row) ofRuns(s *Summary) string {
	switch s.Runs {
	case r.asked:
		return ""
	case 1:
		return "of 1 run"
	}
	return fmt.Sprintf("of %d runs", s.Runs)
}
