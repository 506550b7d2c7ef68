package report

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/larder-dev/larder/bench/internal/scenario"
	"github.com/larder-dev/larder/bench/internal/stat"
)

// Text writes the rows as a table, and the missed goals below it.
func Text(out io.Writer, run Run) error {
	fmt.Fprintf(out, "%s\n%s; %s; commit %s\nMedians (least – most). Ratios are Larder to client-go's default, or to what is named.\n\n",
		run.Command, run.Machine, run.Server, run.Commit)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SCENARIO\tN\tRESIDENCY\tLARDER\tCLIENT-GO\tCLIENT-GO (LIST)\tOTHER\tRATIO\tGOAL\t")
	for _, r := range run.Rows {
		fmt.Fprintf(w, "%s\t%s %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Scenario, count(float64(r.N)), r.Kind, r.Residency,
			spread(&r.Spread.Larder, r.unit()), spread(r.Spread.ClientGo, r.unit()), spread(r.Spread.ClientGoList, r.unit()),
			r.other(), ratioText(r.Ratio), r.Goal, r.verdict())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s (%s %s).%s\n", tallyOf(run, Goals), count(float64(mostObjects(run))), GoalsFor, hint(run))
	return err
}

// hint says what the verdicts are worth.
func hint(run Run) string {
	if mostObjects(run) == GoalsN {
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
	return Figure(*r.Reference, r.unit()) + ", " + r.Against
}

func spread(s *stat.Summary, unit scenario.Unit) string {
	if s == nil {
		return ""
	}
	if s.Min == s.Max {
		return Figure(s.Median, unit)
	}
	return fmt.Sprintf("%s (%s – %s)", Figure(s.Median, unit), Figure(s.Min, unit), Figure(s.Max, unit))
}
