package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/larder-dev/larder/bench/internal/scenario"
)

// Markdown writes the page of the documentation. plots are the pictures, as links from where the page is.
func Markdown(out io.Writer, run Run, plots []string) error {
	p := &page{out: out}
	p.line("# How fast is Larder beside client-go?")
	p.line("")
	p.line("Made by `%s` from `bench/results/%s.json`: do not edit. %s; %s; commit %s.", run.Command, run.ID, run.Machine, run.Server, run.Commit)
	p.line("")
	p.line("Larder and client-go's informer v0.37 do the same on the same server, in turn, each in a fresh process. Figures are medians, the least and the most in")
	p.line("parentheses. client-go's default asks for the state by a watch (WatchList); LIST is the same with `KUBE_FEATURE_WatchListClient=false`. Ratios are Larder")
	p.line("to client-go's default, or to what is named. RssAnon is memory of the process alone; mapped pages belong to the kernel, which takes them back as it")
	p.line("likes. Where a median is of more or fewer runs than its command asks for, it says so.")
	p.line("")
	p.line("Goals are set for %s %s. That of the policy Resumed is to hold whatever the number, and is judged for widgets, too. Those of RssAnon are for the",
		count(GoalsN), GoalsFor)
	p.line("residencies that do not hold all objects, Bounded and None: what All needs is reported.")
	p.line("")
	p.line("In all rows of a restart Larder's file is in the kernel's page cache: the process has been restarted, not the machine, after whose reboot the file would have")
	p.line("to be read from the disk. The scenarios %s run on the embedded API server, as a real one does not make so many", embedded())
	p.line("changes a second, and so do those of widgets.")
	p.line("")
	p.line("%s (%s). A goal is met if every residency that it is for meets it; each residency has a row, with a verdict of its own.",
		tallyOf(run, Goals), judged(run))
	for _, plot := range plots {
		p.line("")
		p.line("![%s](%s)", strings.TrimSuffix(plot[strings.LastIndexByte(plot, '/')+1:], ".svg"), plot)
	}
	p.rows(run.Rows)
	return p.err
}

// embedded names the scenarios of the embedded server.
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

// page is a writer that remembers its error.
type page struct {
	out io.Writer
	err error
}

func (p *page) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format+"\n", args...)
	}
}

// rows writes a table for each scenario, with the command that makes it.
func (p *page) rows(rows []Row) {
	last, command := "", ""
	for _, r := range rows {
		title, figure, _ := strings.Cut(r.Scenario, ": ")
		head := fmt.Sprintf("%s, %s %s", title, count(float64(r.N)), r.Kind)
		if head != last || r.Command != command {
			last, command = head, r.Command
			p.line("")
			p.line("## %s", strings.ToUpper(head[:1])+head[1:])
			p.line("")
			p.line("`%s`", r.Command)
			p.line("")
			p.line("| figure | residency | Larder | client-go | client-go, LIST | compared with | ratio | goal | |")
			p.line("|---|---|---|---|---|---|---|---|---|")
		}
		p.line("| %s | %s | %s | %s | %s | %s | %s | %s | %s |", figure, r.Residency, r.spread(&r.Spread.Larder),
			r.spread(r.Spread.ClientGo), r.spread(r.Spread.ClientGoList), r.other(), ratioText(r.Ratio), r.Goal, r.verdict())
	}
}
