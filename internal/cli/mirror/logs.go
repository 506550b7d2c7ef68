package mirror

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
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2/textlogger"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/internal/symptom"
)

// mostVerbose is the highest accepted log level: from 8 on client-go logs response bodies, including Secrets.
const mostVerbose = 7

const (
	logText = "text"
	logJSON = "json"
)

type logFlags struct {
	format    string
	quiet     bool
	verbosity int
}

func (f *logFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.format, "log-format", logText,
		"`FORMAT` of the log: text or json")
	command.CompleteFlag(cmd, "log-format", cobra.FixedCompletions(
		[]cobra.Completion{logText, logJSON}, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "log errors only")
	cmd.Flags().IntVarP(&f.verbosity, "v", "v", 0,
		"log `LEVEL`, up to 7: from 8 on, client-go would log the content of objects")
}

func (f *logFlags) check() error {
	if f.format != logText && f.format != logJSON {
		return command.Usagef("--log-format is %q; it can be %s or %s", f.format, logText, logJSON)
	}
	return nil
}

func (f *logFlags) level() slog.Level {
	if f.quiet {
		return slog.LevelError
	}
	return slog.Level(-min(f.verbosity, mostVerbose))
}

// log returns the log of a sync for people, and a logger with the same format for libraries.
func (f *logFlags) log(s command.IO) (*plainLog, logr.Logger) {
	l, logger := f.choose(s)
	if f.quiet {
		l = &plainLog{lines: noLines{}}
	}
	// plainLog writes one note about undetectable server changes for all collections, so these messages of informers are
	// dropped.
	logger = command.WithoutCanceled(logger, informer.UnguardedMessage)
	if s.SetLogger != nil {
		s.SetLogger(logger) // libraries without a logger of their own use the global one
	}
	return l, logger
}

func (f *logFlags) choose(s command.IO) (*plainLog, logr.Logger) {
	if f.format == logJSON {
		h := f.json(s.Err)
		return &plainLog{lines: jsonLines{slog.New(h)}}, logr.FromSlogHandler(h)
	}
	text := &plainLog{lines: textLines{s.Err}}
	if f.quiet || s.ErrIsTerminal {
		return text, logr.FromSlogHandler(&plainHandler{w: s.Err, level: f.level()})
	}
	return text, textlogger.NewLogger(textlogger.NewConfig(
		textlogger.Output(s.Err), textlogger.Verbosity(min(f.verbosity, mostVerbose))))
}

func (f *logFlags) json(w io.Writer) slog.Handler {
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: f.level()})
}

// logged returns the error with which the command ends. If the log is JSON, it writes the error and its hint as the
// last log line, and returns an error that is not printed again.
func (f *logFlags) logged(s command.IO, err error) error {
	if f.format != logJSON || err == nil || errors.Is(err, command.ErrSilent) {
		return err
	}
	logr.FromSlogHandler(f.json(s.Err)).Error(err, "Sync has failed", hintFor(err)...)
	return command.Coded(command.ErrSilent, command.ExitCode(err))
}

// plainHandler is a slog.Handler for a terminal: the message and its attributes on one line.
type plainHandler struct {
	w     io.Writer
	level slog.Leveler
	attrs []slog.Attr
}

func (h *plainHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.level.Level()
}

func (h *plainHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	switch {
	case r.Level >= slog.LevelError:
		b.WriteString("error: ")
	case r.Level >= slog.LevelWarn:
		b.WriteString("warning: ")
	}
	b.WriteString(r.Message)
	var cause string
	add := func(a slog.Attr) bool {
		if a.Key == "err" {
			cause = a.Value.String()
		} else {
			b.WriteString(", " + a.Key + " " + a.Value.String())
		}
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	if cause != "" {
		b.WriteString(": " + cause)
	}
	_, err := io.WriteString(h.w, terminal.OneLine(b.String())+"\n")
	return err
}

func (h *plainHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &plainHandler{w: h.w, level: h.level, attrs: append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

// WithGroup implements slog.Handler; it ignores groups.
func (h *plainHandler) WithGroup(string) slog.Handler { return h }

// hintFor returns the hint of an error, and the URL of its explanation, as attributes of a slog.Record.
func hintFor(err error) (all []any) {
	if hint := command.HintOf(err); hint != "" {
		all = append(all, "hint", hint)
	}
	if page := symptom.Of(err); page != "" {
		all = append(all, "see", page)
	}
	return all
}

// quietFor is the interval between log lines of a summary, and between lines about a lasting error.
const quietFor = time.Minute

// atOnce is the largest number of collections whose simultaneous changes get log lines of their own. More changes are
// logged as a summary.
const atOnce = 5

// plainLog is the log of a sync for people. It writes a line when a collection's state changes, or a summary if many
// states change at once. Every minute it writes a summary of all collections, and a line for each lasting error with
// the resources that have the error.
type plainLog struct {
	lines

	mu sync.Mutex
	// lastLines is the last line written about each collection, by collection ID; mu guards it.
	lastLines map[string]lastLine
	// summed is when the last summary was written; mu guards it.
	summed time.Time
	// errors maps the text of each error to the time at which it was last written; mu guards it.
	errors map[string]time.Time
	// forbidden holds the IDs of the collections that the API server forbids at the last update. noted holds the IDs in
	// the last written note. mu guards the two fields.
	forbidden, noted []string
	// unguarded maps each kind of server change that would not be detected (such as a restored backup) to the labels of
	// the affected collections at the last update. unguardedNoted holds the labels in the last written note. mu guards the
	// two fields.
	unguarded, unguardedNoted map[string][]string
}

type lines interface {
	one(now time.Time, c source.Collection)
	all(now time.Time, sum summary)
	failed(now time.Time, text string, resources []string)
	// note writes a message that is not an error.
	note(text string)
}

// lastLine is the state of a collection that was last written to the log, without figures that change all the time.
type lastLine struct {
	what string
	seed string // seed is the last line about the seed, a snapshot with the initial state
}

// update writes changed states of collections, and the summary if it is due. Changes get no lines of their own in three
// cases: the first state of several collections and more than atOnce changes, which the summary covers, and forbidden
// collections, which share one note.
func (p *plainLog) update(now time.Time, all []source.Collection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.lastLines == nil
	if first {
		p.lastLines, p.errors = map[string]lastLine{}, map[string]time.Time{}
	}
	var changed []source.Collection
	for _, c := range all {
		what, last := stateOf(c), p.lastLines[c.ID]
		p.lastLines[c.ID] = lastLine{what, c.Live.Seed}
		// A failed seed is logged as an error, so only a seed that was used gets a note.
		if strings.HasPrefix(c.Live.Seed, begunWith) && c.Live.Seed != last.seed {
			p.lines.note(input.Label(c) + ": " + c.Live.Seed)
		}
		if !first && last.what != what && !input.Forbidden(c) {
			changed = append(changed, c)
		}
	}
	if len(changed) <= atOnce {
		for _, c := range changed {
			p.lines.one(now, c)
		}
	}
	p.noteForbidden(all)
	p.noteUnguarded(all)
	p.writeErrors(now, all)
	if len(changed) > atOnce || now.Sub(p.summed) >= quietFor {
		p.summed = now
		if len(all) == 1 {
			p.lines.one(now, all[0])
		} else {
			p.lines.all(now, sumOf(all))
		}
	}
}

// noteForbidden writes a note if the API server forbids more resources than the last note named. It waits until an
// update adds no forbidden resource, so that one note names all.
func (p *plainLog) noteForbidden(all []source.Collection) {
	ids, of := forbiddenOf(all)
	steady := slices.Equal(ids, p.forbidden)
	p.forbidden = ids
	if steady && slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(p.noted, id) }) {
		p.noted = ids
		p.lines.note(input.ForbiddenNote(of, len(all)))
	}
}

// noteUnguarded writes a note for each kind of server change that would not be detected. The note names all affected
// collections and the reason of the first collection. It waits until an update adds no affected collection.
func (p *plainLog) noteUnguarded(all []source.Collection) {
	unguarded, why := map[string][]string{}, map[string]string{}
	for _, c := range all {
		for _, sentence := range c.Live.Unguarded {
			change, reason, _ := strings.Cut(sentence, ": ")
			unguarded[change], why[change] = append(unguarded[change], input.Label(c)), cmp.Or(why[change], reason)
		}
	}
	for _, change := range slices.Sorted(maps.Keys(unguarded)) {
		of := unguarded[change]
		isNew := func(label string) bool { return !slices.Contains(p.unguardedNoted[change], label) }
		if !slices.Equal(of, p.unguarded[change]) || !slices.ContainsFunc(of, isNew) {
			continue
		}
		if p.unguardedNoted == nil {
			p.unguardedNoted = map[string][]string{}
		}
		p.unguardedNoted[change] = of
		p.lines.note(fmt.Sprintf("%s would not be noticed of %d of %s: %s (%s)", change, len(of),
			command.Counted(len(all), "resource"), input.Some(of), why[change]))
	}
	p.unguarded = unguarded
}

func forbiddenOf(all []source.Collection) (ids []string, of []source.Collection) {
	for _, c := range all {
		if input.Forbidden(c) {
			ids, of = append(ids, c.ID), append(of, c)
		}
	}
	return ids, of
}

// writeErrors writes each error that is new or was last written quietFor ago, followed by the resources with that
// error.
func (p *plainLog) writeErrors(now time.Time, all []source.Collection) {
	for _, t := range input.Errors(all) {
		if at, ok := p.errors[t.Text]; !ok || now.Sub(at) >= quietFor {
			p.errors[t.Text] = now
			p.lines.failed(now, t.Text, t.Of)
		}
	}
	maps.DeleteFunc(p.errors, func(_ string, at time.Time) bool { return now.Sub(at) > quietFor })
}

func (p *plainLog) finish(now time.Time, all []source.Collection) {
	p.mu.Lock()
	for id, last := range p.lastLines {
		p.lastLines[id] = lastLine{seed: last.seed}
	}
	p.errors, p.summed = map[string]time.Time{}, now
	// No update follows, so the note is written without waiting for further forbidden collections.
	p.forbidden, _ = forbiddenOf(all)
	p.mu.Unlock()
	p.update(now, all)
}

func stateOf(c source.Collection) string {
	return fmt.Sprint(input.SourceWord(*c.Live), c.Live.Synced, c.Live.Resumes, c.Live.Relists, c.Live.Seed)
}

type summary struct {
	collections, objects int
	// states counts collections by the word for their state; see input.SourceWord.
	states map[string]int
	// oldest is the oldest last contact with the server, among collections that are not forbidden; zero if a collection
	// has had no contact.
	oldest   time.Time
	resumes  int
	relists  map[string]int
	received int64
}

func sumOf(all []source.Collection) summary {
	sum := summary{collections: len(all), states: map[string]int{}, relists: map[string]int{}}
	first := true
	for _, c := range all {
		sum.objects += c.Objects
		sum.states[input.SourceWord(*c.Live)]++
		sum.resumes += c.Live.Resumes
		sum.received += c.Live.BytesReceived
		for reason, n := range c.Live.Relists {
			sum.relists[reason] += n
		}
		if !input.Forbidden(c) && (first || c.LastContact.Before(sum.oldest)) {
			sum.oldest, first = c.LastContact, false
		}
	}
	return sum
}

func (s summary) stateText() string {
	words := slices.SortedFunc(maps.Keys(s.states), func(a, b string) int {
		return cmp.Or(s.states[b]-s.states[a], strings.Compare(a, b))
	})
	for i, w := range words {
		words[i] = fmt.Sprintf("%d %s", s.states[w], w)
	}
	return strings.Join(words, ", ")
}

type textLines struct{ w io.Writer }

func (t textLines) line(now time.Time, text string) {
	fmt.Fprintln(t.w, now.UTC().Format(time.RFC3339), terminal.OneLine(text))
}

func (t textLines) one(now time.Time, c source.Collection) {
	t.line(now, fmt.Sprintf("%s: %s, %s, RV %s, age %s, resumes %d, relists %s, received %s",
		input.Label(c), input.SourceWord(*c.Live), command.CountedObjects(c.Objects),
		command.OrDash(c.ResourceVersion), command.AgeOf(now, c.LastContact), c.Live.Resumes, relists(c.Live.Relists),
		command.Size(c.Live.BytesReceived)))
}

func (t textLines) all(now time.Time, sum summary) {
	t.line(now, fmt.Sprintf("%d resources: %s, %s, age %s, resumes %d, relists %s, received %s",
		sum.collections, sum.stateText(), command.CountedObjects(sum.objects), command.AgeOf(now, sum.oldest), sum.resumes,
		relists(sum.relists), command.Size(sum.received)))
}

func (t textLines) failed(now time.Time, text string, resources []string) {
	t.line(now, fmt.Sprintf("error of %s: %s", input.Some(resources), text))
}

func (t textLines) note(text string) { fmt.Fprintln(t.w, "note:", terminal.OneLine(text)) }

type jsonLines struct{ logger *slog.Logger }

func (j jsonLines) one(_ time.Time, c source.Collection) {
	j.logger.LogAttrs(context.Background(), slog.LevelInfo, "Mirroring",
		slog.String("resource", c.Named().String()), slog.String("scope", input.Scope(c)),
		slog.String("source", input.SourceWord(*c.Live)), slog.Int("objects", c.Objects),
		slog.String("resourceVersion", c.ResourceVersion), slog.Time("lastContact", c.LastContact),
		slog.Int("resumes", c.Live.Resumes), slog.Any("relists", c.Live.Relists),
		slog.Int64("bytesReceived", c.Live.BytesReceived))
}

func (j jsonLines) all(_ time.Time, sum summary) {
	j.logger.LogAttrs(context.Background(), slog.LevelInfo, "Summary",
		slog.Int("resources", sum.collections), slog.Any("sources", sum.states), slog.Int("objects", sum.objects),
		slog.Time("lastContact", sum.oldest), slog.Int("resumes", sum.resumes), slog.Any("relists", sum.relists),
		slog.Int64("bytesReceived", sum.received))
}

func (j jsonLines) failed(_ time.Time, text string, resources []string) {
	j.logger.Warn("Not well", "resources", resources, "err", text)
}

func (j jsonLines) note(text string) { j.logger.Info(text) }

type noLines struct{}

func (noLines) one(time.Time, source.Collection)   {}
func (noLines) all(time.Time, summary)             {}
func (noLines) failed(time.Time, string, []string) {}
func (noLines) note(string)                        {}

const liveEvery = time.Second

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

// relists returns the number of relists (lists after the first list) by reason, as text.
func relists(by map[string]int) string {
	n := source.Live{Relists: by}.RelistCount()
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", n, strings.Join(slices.Sorted(maps.Keys(by)), ", "))
}

// unansweredText returns one text for all errors of a server that does not respond; "" for other errors. While the
// server is away, the collections retry in turn, so their own errors keep changing.
func unansweredText(err error) string {
	var request *url.Error
	if !errors.As(err, &request) {
		return ""
	}
	cause := request.Err
	var op *net.OpError
	if errors.As(cause, &op) { // the local port differs at each attempt
		there := *op
		there.Source = nil
		cause = &there
	}
	return fmt.Sprintf("the API server does not answer: %v", cause)
}
