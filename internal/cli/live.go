package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/larder-dev/larder/internal/source"
)

const (
	// liveEvery is how often the state is looked at.
	liveEvery = time.Second
	// quietFor is how long a plain log says nothing about a resource that does not change.
	quietFor = time.Minute
)

// display shows the state of a sync. It is also where logs go, so that they do
// not tear up what is on the terminal.
type display interface {
	io.Writer
	// update shows the collections.
	update(now time.Time, all []source.Collection)
	// finish shows them for the last time.
	finish(now time.Time, all []source.Collection)
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

	mu sync.Mutex
	// block is the table as it stands on the screen; guarded by mu.
	block []string
}

// update implements display.
func (s *screen) update(now time.Time, all []source.Collection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draw(fit(liveTable(now, all), s.size))
}

// finish implements display.
func (s *screen) finish(now time.Time, all []source.Collection) { s.update(now, all) }

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

// liveTable is a line for each resource, under a header.
func liveTable(now time.Time, all []source.Collection) []string {
	var b strings.Builder
	t := newTable(&b, "RESOURCE", "SOURCE", "OBJECTS", "RV", "AGE", "RESUMES", "RELISTS", "RECEIVED", "")
	for _, c := range all {
		t.row(label(c), sourceWord(c.Live.Source), strconv.Itoa(c.Objects), orDash(c.ResourceVersion), ageOf(now, c.LastContact),
			strconv.Itoa(c.Live.Resumes), relists(*c.Live), size(c.Live.BytesReceived), trouble(*c.Live))
	}
	_ = t.flush() // a strings.Builder does not fail
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// fit cuts the lines to the terminal, and leaves one for the cursor: a line that wraps, or
// has scrolled out at the top, can not be redrawn.
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

func cut(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(0, width)])
}

// label is the resource, with its scope if it has one.
func label(c source.Collection) string {
	r := resource{c.GVR(), c.ResourceInfo()}
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

// troubleOf says of a server that does not answer no more than that, and why. While it is away one resource tries and the others wait for
// that, in turns: what they say of it would never stay the same. It is empty for other errors.
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

// plainLog writes a line when something happens, and each minute.
type plainLog struct {
	out io.Writer

	mu sync.Mutex
	// said is what was last written about each collection; guarded by mu.
	said map[string]saying
}

// saying is when a line was written, and what it said but for the figures that always change.
type saying struct {
	at   time.Time
	what string
}

// Write implements io.Writer.
func (p *plainLog) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

// update implements display.
func (p *plainLog) update(now time.Time, all []source.Collection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range all {
		what := gist(c)
		last, ok := p.said[c.ID]
		if ok && last.what == what && now.Sub(last.at) < quietFor {
			continue
		}
		if p.said == nil {
			p.said = map[string]saying{}
		}
		p.said[c.ID] = saying{now, what}
		fmt.Fprintln(p.out, oneLine(plainLine(now, c)))
	}
}

// finish implements display.
func (p *plainLog) finish(now time.Time, all []source.Collection) {
	p.mu.Lock()
	p.said = nil
	p.mu.Unlock()
	p.update(now, all)
}

func gist(c source.Collection) string {
	return fmt.Sprint(c.Live.Source, c.Live.Synced, c.Live.Resumes, c.Live.Relists, trouble(*c.Live))
}

func plainLine(now time.Time, c source.Collection) string {
	line := fmt.Sprintf("%s %s: %s, %s, RV %s, age %s, resumes %d, relists %s, received %s",
		now.UTC().Format(time.RFC3339), label(c), sourceWord(c.Live.Source), countedObjects(c.Objects), orDash(c.ResourceVersion), ageOf(now, c.LastContact),
		c.Live.Resumes, relists(*c.Live), size(c.Live.BytesReceived))
	if t := trouble(*c.Live); t != "" {
		line += ", error: " + t
	}
	return line
}
