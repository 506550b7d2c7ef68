package demo

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

const namesPerLine = 6

// printer writes the demo's output for people. It keeps the first error of its writer.
type printer struct {
	w        io.Writer
	chapters int
	err      error
}

func (p *printer) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(p.w, format, args...); err != nil && p.err == nil {
		p.err = err
	}
}

func (p *printer) title(label string, pods int, namespace string) {
	p.printf("Larder on %s: %s pods in the namespace %s\n\n", label, count(pods), namespace)
}

func (p *printer) chapter(format string, args ...any) {
	p.chapters++
	p.printf("\n%d. %s\n", p.chapters, fmt.Sprintf(format, args...))
}

func (p *printer) line(format string, args ...any) { p.printf("   "+format+"\n", args...) }

func (p *printer) cost(m Measure) {
	p.line("%s, %s received, %s.", m.Requests, size(m.Received), span(m.Took))
}

// events prints the events that Larder's handler received. format has a verb for the number of stored pods.
func (p *printer) events(step *Step, format string) {
	p.line(format, count(step.Replayed))
	p.line("  %s updated, %s created, %s deleted; the deleted ones are", count(len(step.Updated)),
		count(len(step.Created)), count(len(step.Deleted)))
	names := make([]string, 0, len(step.Deleted))
	for _, key := range step.Deleted {
		names = append(names, nameOf(key))
	}
	for len(names) > 0 {
		n := min(namesPerLine, len(names))
		p.line("    %s", strings.Join(names[:n], " "))
		names = names[n:]
	}
}

func (c changes) String() string {
	return fmt.Sprintf("%s pods were changed, %s created, %s deleted", count(len(c.updated)), count(len(c.created)),
		count(len(c.deleted)))
}

func (r Requests) String() string {
	parts := []string{r.lists()}
	for _, part := range []struct {
		n    int
		name string
	}{{r.WatchLists, "watch of the whole state"}, {r.Watches, "watch"}, {r.Probes, "probe"}, {r.Lookups, "look-up"},
		{r.Compares, "page of metadata"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, plural(part.name, part.n)))
		}
	}
	return strings.Join(parts, ", ")
}

// lists returns the number of lists as text. If the lists needed more requests, the text includes the number of pages.
func (r Requests) lists() string {
	text := fmt.Sprintf("%d %s", r.Lists, plural("list", r.Lists))
	if r.Pages > r.Lists {
		text += fmt.Sprintf(" (%d %s)", r.Pages, plural("page", r.Pages))
	}
	return text
}

func plural(name string, n int) string {
	switch {
	case n == 1:
		return name
	case strings.HasPrefix(name, "page of"):
		return "pages" + strings.TrimPrefix(name, "page")
	case strings.HasPrefix(name, "watch"):
		return "watches" + strings.TrimPrefix(name, "watch")
	}
	return name + "s"
}

func (p *printer) table(r Report) {
	p.printf("\n")
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	row := func(cells ...string) { _, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) }
	row("", "Larder", "client-go (default)", "client-go (LIST)")
	for _, step := range r.Steps {
		row(step.Name+":", "", "", "")
		columns := []Measure{step.Larder, step.Default, step.List}
		row(cells("  whole state asked for", columns, wholeState)...)
		row(cells("  received", columns, func(m Measure) string { return size(m.Received) })...)
		row(cells("  time", columns, func(m Measure) string {
			if !m.Synced {
				return "never"
			}
			return span(m.Took)
		})...)
		row(cells("  pods", columns, func(m Measure) string { return count(m.Objects) })...)
	}
	_ = w.Flush()
	for line := range strings.Lines(text.String()) {
		p.printf("%s\n", strings.TrimRight(line, " \n"))
	}
	p.printf(
		"\nclient-go's default asks for the state by a watch (WatchList), which servers do not compress; a LIST is " +
			"compressed.\n" +
			"Larder's list comes in pages of 500, 1,000 and then 2,000 pods.\n" +
			"Times are from the start of the informer until it and its handler have synced; for Larder\n" +
			"in the last step, which was running already, from the server's first answer.\n")
}

func cells(name string, columns []Measure, cell func(Measure) string) []string {
	out := []string{name}
	for _, m := range columns {
		out = append(out, cell(m))
	}
	return out
}

func wholeState(m Measure) string {
	switch r := m.Requests; {
	case r.WatchLists > 0 && r.Lists == 0:
		return fmt.Sprintf("%d WatchList", r.WatchLists)
	case r.WatchLists > 0:
		return fmt.Sprintf("%d WatchList, %s", r.WatchLists, r.lists())
	default:
		return r.lists()
	}
}

func count(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// size formats a number of bytes for people; a kB is 1,000 bytes.
func size(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

func span(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
