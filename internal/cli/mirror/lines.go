package mirror

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/source"
)

// quietFor is how long a plain log says nothing about a resource that does not change.
const quietFor = time.Minute

// plainLog writes a line when something happens, and each minute.
type plainLog struct {
	// say writes what a collection is now.
	say func(now time.Time, c source.Collection)
	// note tells what people should know and what is no error.
	note func(text string)

	mu sync.Mutex
	// said is what was last written about each collection; guarded by mu.
	said map[string]saying
}

// saying is when a line was written, and what it said but for the figures that always change.
type saying struct {
	at   time.Time
	what string
	seed string // what was noted of the seed
}

// update tells of the collections of which there is news.
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
		p.said[c.ID] = saying{now, what, c.Live.Seed}
		if strings.HasPrefix(c.Live.Seed, begunWith) && c.Live.Seed != last.seed { // why not is an error in the log
			p.note(input.Label(c) + ": " + c.Live.Seed)
		}
		p.say(now, c)
	}
}

// finish tells of all of them, for the last time.
func (p *plainLog) finish(now time.Time, all []source.Collection) {
	p.mu.Lock()
	for id, last := range p.said {
		p.said[id] = saying{seed: last.seed}
	}
	p.mu.Unlock()
	p.update(now, all)
}

func gist(c source.Collection) string {
	return fmt.Sprint(c.Live.Source, c.Live.Synced, c.Live.Resumes, c.Live.Relists, c.Live.Seed, input.Trouble(*c.Live))
}

// sayText says it in a line for people.
func sayText(w io.Writer) func(time.Time, source.Collection) {
	return func(now time.Time, c source.Collection) { fmt.Fprintln(w, terminal.OneLine(plainLine(now, c))) }
}

func plainLine(now time.Time, c source.Collection) string {
	line := fmt.Sprintf("%s %s: %s, %s, RV %s, age %s, resumes %d, relists %s, received %s",
		now.UTC().Format(time.RFC3339), input.Label(c), input.SourceWord(*c.Live), command.CountedObjects(c.Objects),
		command.OrDash(c.ResourceVersion), command.AgeOf(now, c.LastContact), c.Live.Resumes, relists(*c.Live),
		command.Size(c.Live.BytesReceived))
	if t := input.Trouble(*c.Live); t != "" {
		line += ", error: " + t
	}
	return line
}

// noteJSON returns what writes a note as a record of the log.
func noteJSON(h slog.Handler) func(text string) {
	logger := slog.New(h)
	return func(text string) { logger.Info(text) }
}

// sayJSON says it as a record of the log.
func sayJSON(h slog.Handler) func(time.Time, source.Collection) {
	logger := slog.New(h)
	return func(_ time.Time, c source.Collection) {
		attrs := []slog.Attr{
			slog.String("resource", input.ResourceOf(c).String()), slog.String("scope", input.Scope(c)),
			slog.String("source", input.SourceWord(*c.Live)), slog.Int("objects", c.Objects),
			slog.String("resourceVersion", c.ResourceVersion), slog.Time("lastContact", c.LastContact),
			slog.Int("resumes", c.Live.Resumes), slog.Any("relists", c.Live.Relists),
			slog.Int64("bytesReceived", c.Live.BytesReceived),
		}
		if t := input.Trouble(*c.Live); t != "" {
			attrs = append(attrs, slog.String("err", t))
		}
		logger.LogAttrs(context.Background(), slog.LevelInfo, "Mirroring", attrs...)
	}
}

// liveEvery is how often the state is looked at.
const liveEvery = time.Second

// noteTo returns what writes a note as a line for people.
func noteTo(w io.Writer) func(text string) {
	return func(text string) { fmt.Fprintln(w, "note:", terminal.OneLine(text)) }
}

// show has l tell the state until ctx ends.
func show(ctx context.Context, s command.IO, l *plainLog, state func() []source.Collection) {
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	for {
		l.update(s.Now(), state())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// relists is the number of relists and why the objects were listed anew.
func relists(l source.Live) string {
	if len(l.Relists) == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", l.RelistCount(), strings.Join(slices.Sorted(maps.Keys(l.Relists)), ", "))
}
