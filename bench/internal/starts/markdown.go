package starts

import (
	"fmt"
	"io"
	"time"

	"github.com/larder-dev/larder/bench/internal/stat"
)

// String is a row of the table.
func (r Row) String() string {
	what := fmt.Sprintf("%d quiet", r.Objects)
	if r.Busy {
		what = fmt.Sprintf("%d busy", r.Objects)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %.2f× | %.2f× |", what, cell(r.ClientGo), cell(r.Resumed), cell(r.OnDisk),
		r.Resumed.Median/r.ClientGo.Median, r.OnDisk.Median/r.ClientGo.Median)
}

func cell(s stat.Summary) string {
	return fmt.Sprintf("%s (%s – %s)", millis(s.Median), millis(s.Min), millis(s.Max))
}

func millis(seconds float64) string {
	return fmt.Sprintf("%d ms", time.Duration(seconds*float64(time.Second)).Milliseconds())
}

// Markdown writes the rows as a table: medians, with the fastest and the slowest start in parentheses.
func Markdown(out io.Writer, rows []Row, runs int, command string) {
	fmt.Fprintf(out, "Start to HasSynced, pods, no handler, medians of %d (`%s`):\n\n", runs, command)
	fmt.Fprintln(out, "| objects | client-go | Larder, Resumed | Larder, Disk | Resumed / client-go | Disk / client-go |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|")
	for _, r := range rows {
		fmt.Fprintln(out, r)
	}
}
