package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/larder-dev/larder/bench/internal/scenario"
)

// Text writes the rows as tables, with the commands that measure them again, and then the tally of the goals.
func Text(out io.Writer, r Record) error {
	rows := r.Rows()
	fmt.Fprintf(out, "%s\n%s; %s; commit %s\n", r.Command, r.Machine, r.Server, r.Commit)
	fmt.Fprintln(out, "Medians (least – most). Ratios are Larder to client-go's default, or to what is named.")
	if err := writeTables(out, rows); err != nil {
		return err
	}
	hint := ""
	if mostObjects(rows, scenario.GoalsFor) != scenario.GoalsN {
		hint = " The goals are set for " + goalsFor() + ": with another number a verdict is a hint."
	}
	_, err := fmt.Fprintf(out, "\n%s.%s\n", verdict(rows), hint)
	return err
}

func goalsFor() string { return count(scenario.GoalsN) + " " + scenario.GoalsFor }

func verdict(rows []Row) string {
	return fmt.Sprintf("%s (%s)", tallyOf(rows, scenario.All()), judged(rows))
}

// writeTables writes a table for each scenario and number of objects, with its command. Columns are aligned for reading
// in a terminal.
func writeTables(out io.Writer, rows []Row) error {
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	last, command := "", ""
	for _, r := range rows {
		head := fmt.Sprintf("%s, %s %s", r.Title, count(float64(r.N)), r.Kind)
		if head != last || r.Command != command {
			last, command = head, r.Command
			fmt.Fprintf(w, "\n## %s\n\n`%s`\n\n", strings.ToUpper(head[:1])+head[1:], r.Command)
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

// ofRuns returns the number of runs as text if it differs from the command's number, because some runs failed.
// Otherwise it returns "".
func (r Row) ofRuns(s *Summary) string {
	switch s.Runs {
	case r.asked.Runs:
		return ""
	case 1:
		return "of 1 run"
	}
	return fmt.Sprintf("of %d runs", s.Runs)
}
