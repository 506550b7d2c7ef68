package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/source"
)

// liveEvery is how often the state is looked at.
const liveEvery = time.Second

// display shows the state of a sync.
type display interface {
	// update shows the collections.
	update(now time.Time, all []source.Collection)
	// finish shows them for the last time.
	finish(now time.Time, all []source.Collection)
	// note tells what people should know and what is no error.
	note(text string)
}

// noteTo returns what writes a note as a line for people.
func noteTo(w io.Writer) func(text string) {
	return func(text string) { fmt.Fprintln(w, "note:", terminal.OneLine(text)) }
}

// show updates d from state until ctx ends.
func show(ctx context.Context, s IO, d display, state func() []source.Collection) {
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	for {
		d.update(s.Now(), state())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// screen redraws a table at the end of a terminal.
type screen struct {
	out  io.Writer
	size func() (width, height int)
	// colours has sources in colour.
	colours bool
	// level, if there is one, is that of what is written above the table: what is well the table shows.
	level *slog.LevelVar
	// notes writes a note.
	notes func(text string)

	mu sync.Mutex
	// block is the table as it stands on the screen; guarded by mu.
	block []string
}

// update implements display.
func (s *screen) update(now time.Time, all []source.Collection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.level != nil {
		s.level.Set(slog.LevelWarn)
	}
	width, _ := s.size()
	s.draw(fit(liveTable(now, all, width, s.colours), s.size))
}

// finish implements display.
func (s *screen) finish(now time.Time, all []source.Collection) { s.update(now, all) }

// note implements display.
func (s *screen) note(text string) { s.notes(text) }

// Write implements io.Writer: the text goes above the table.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	block := s.block
	s.draw(nil)
	n, err := s.out.Write(p)
	s.draw(block)
	return n, err
}

// draw replaces the block; mu is held.
func (s *screen) draw(block []string) {
	var b strings.Builder
	b.WriteString("\r") // a ^C may have been echoed
	if n := len(s.block); n > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", n) // up to the block's first line
	}
	b.WriteString("\x1b[J") // erase to the end of the screen
	for _, line := range block {
		b.WriteString(line + "\n")
	}
	s.block = block
	_, _ = io.WriteString(s.out, b.String()) // nothing can be done about a terminal that has gone
}

// liveColumn is a column of the live table.
type liveColumn struct {
	header string
	cell   func(now time.Time, c source.Collection) string
}

var liveColumns = []liveColumn{
	{"RESOURCE", func(_ time.Time, c source.Collection) string { return label(c) }},
	{"SOURCE", func(_ time.Time, c source.Collection) string { return sourceWord(c.Live.Source) }},
	{"OBJECTS", func(_ time.Time, c source.Collection) string { return strconv.Itoa(c.Objects) }},
	{"RV", func(_ time.Time, c source.Collection) string { return orDash(c.ResourceVersion) }},
	{"AGE", func(now time.Time, c source.Collection) string { return ageOf(now, c.LastContact) }},
	{"RESUMES", func(_ time.Time, c source.Collection) string { return strconv.Itoa(c.Live.Resumes) }},
	{"RELISTS", func(_ time.Time, c source.Collection) string { return relists(*c.Live) }},
	{"RECEIVED", func(_ time.Time, c source.Collection) string { return size(c.Live.BytesReceived) }},
}

// dispensable are the columns that are left out of a terminal that is too narrow, in this order.
var dispensable = []string{"RECEIVED", "RV", "RESUMES", "AGE", "RELISTS"}

// liveTable is a line for each resource, under a header, with the columns that fit, and no name wider than half of the
// terminal if not all do; below it is what is wrong, a line for each resource.
func liveTable(now time.Time, all []source.Collection, width int, colours bool) []string {
	columns := slices.Clone(liveColumns)
	lines, widest := layOut(now, all, columns, colours)
	if widest > width {
		columns[0].cell = func(_ time.Time, c source.Collection) string { return shortened(label(c), width/2) }
		lines, widest = layOut(now, all, columns, colours)
	}
	for _, header := range dispensable {
		if widest <= width {
			break
		}
		columns = slices.DeleteFunc(columns, func(c liveColumn) bool { return c.header == header })
		lines, widest = layOut(now, all, columns, colours)
	}
	for _, c := range all {
		if t := trouble(*c.Live); t != "" {
			lines = append(lines, label(c)+": "+t)
		}
	}
	return lines
}

// shortened is a text of at most so many characters.
func shortened(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return cut(text, most-1) + "…"
}

func layOut(now time.Time, all []source.Collection, columns []liveColumn, colours bool) (lines []string, width int) {
	t := &terminal.Table{}
	var cells []string
	for i, column := range columns {
		cells = append(cells, column.header)
		if colours && column.header == "SOURCE" {
			t.Paint(i, colourOfState)
		}
	}
	t.Row(cells...)
	for _, c := range all {
		cells = nil
		for _, column := range columns {
			cells = append(cells, column.cell(now, c))
		}
		t.Row(cells...)
	}
	return t.Lines()
}

// fit cuts the lines to the terminal, and leaves one for the cursor: a line that wraps, or
// has scrolled out at the top, cannot be redrawn.
func fit(lines []string, size func() (width, height int)) []string {
	width, height := size()
	if most := max(2, height-1); len(lines) > most {
		more := fmt.Sprintf("… and %d more; larder status shows all", len(lines)-most+1)
		lines = append(slices.Clone(lines[:most-1]), more)
	}
	for i, line := range lines {
		lines[i] = cut(strings.TrimRight(line, " "), width)
	}
	return lines
}

// painted are the escape sequences of colours.
var painted = regexp.MustCompile(`\x1b\[[0-9]*m`)

// cut cuts a line to a width. It loses its colours with that.
func cut(s string, width int) string {
	plain := painted.ReplaceAllString(s, "")
	if utf8.RuneCountInString(plain) <= width {
		return s
	}
	return string([]rune(plain)[:max(0, width)])
}

// label is the resource, with its scope if it has one.
func label(c source.Collection) string {
	r := resourceOf(c)
	if sc := scope(c); sc != "all" {
		return r.String() + " (" + sc + ")"
	}
	return r.String()
}

// relists is the number of relists and why the objects were listed anew.
func relists(l source.Live) string {
	if len(l.Relists) == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", l.RelistCount(), strings.Join(slices.Sorted(maps.Keys(l.Relists)), ", "))
}

// trouble is one line, whatever the error.
func trouble(l source.Live) string {
	return strings.Join(strings.Fields(cmp.Or(l.Trouble, l.Error)), " ")
}

// troubleOf says of a server that does not answer no more than that, and why. While it is away one resource tries and
// the others wait for that, in turns: what they say of it would never stay the same. It is empty for other errors.
func troubleOf(err error) string {
	var request *url.Error
	if !errors.As(err, &request) {
		return ""
	}
	cause := request.Err
	var op *net.OpError
	if errors.As(cause, &op) { // without our own port, another one at each try
		there := *op
		there.Source = nil
		cause = &there
	}
	return fmt.Sprintf("the API server does not answer: %v", cause)
}
