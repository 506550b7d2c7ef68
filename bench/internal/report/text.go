package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/larder-dev/larder/bench/internal/stat"
)

// Text writes the rows as a table, with the commands that measure them again, and what became of the goals below it.
func Text(out io.Writer, run Run) error {
	fmt.Fprintf(out, "%s\n%s; %s; commit %s\nMedians (least – most). Ratios are Larder to client-go's default, or to what is named.\n\n",
		run.Command, run.Machine, run.Server, run.Commit)
	lines, err := linesOf(run.Rows)
	if err != nil {
		return err
	}
	fmt.Fprint(out, lines[0])
	command := ""
	for i, r := range run.Rows {
		if r.Command != command {
			command = r.Command
			fmt.Fprintf(out, "\n%s\n", command)
		}
		fmt.Fprint(out, lines[i+1])
	}
	_, err = fmt.Fprintf(out, "\n%s (%s).%s\n", tallyOf(run, Goals), judged(run), hint(run))
	return err
}

// linesOf returns a line for the names of the columns and one for each row. Commands between them must not end the columns.
func linesOf(rows []Row) ([]string, error) {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SCENARIO\tN\tRESIDENCY\tLARDER\tCLIENT-GO\tCLIENT-GO (LIST)\tOTHER\tRATIO\tGOAL\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Scenario, count(float64(r.N)), r.Kind, r.Residency,
			r.spread(&r.Spread.Larder), r.spread(r.Spread.ClientGo), r.spread(r.Spread.ClientGoList),
			r.other(), ratioText(r.Ratio), r.Goal, r.verdict())
	}
	err := w.Flush()
	return strings.SplitAfter(text.String(), "\n"), err
}

// hint says what the verdicts are worth.
func hint(run Run) string {
	if mostObjects(run, GoalsFor) == GoalsN {
		return ""
	}
	return fmt.Sprintf(" The goals are set for %s %s: with another number a verdict is a hint.", count(GoalsN), GoalsFor)
}

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
	text := Figure(*r.Reference, r.unit()) + ", " + r.Against
	if runs := r.ofRuns(r.Spread.Reference); runs != "" {
		text += " (" + runs + ")"
	}
	return text
}

// spread writes a median with what it is of.
func (r Row) spread(s *stat.Summary) string {
	if s == nil {
		return ""
	}
	var of []string
	if s.Min != s.Max {
		of = append(of, Figure(s.Min, r.unit())+" – "+Figure(s.Max, r.unit()))
	}
	if runs := r.ofRuns(s); runs != "" {
		of = append(of, runs)
	}
	if of == nil {
		return Figure(s.Median, r.unit())
	}
	return fmt.Sprintf("%s (%s)", Figure(s.Median, r.unit()), strings.Join(of, ", "))
}

// ofRuns says how many runs a median is of, where that is not what the row's command asks for: some have failed.
func (r Row) ofRuns(s *stat.Summary) string {
	switch {
	case s == nil || s.Runs == r.asked():
		return ""
	case s.Runs == 1:
		return "of 1 run"
	}
	return fmt.Sprintf("of %d runs", s.Runs)
}
