package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"sigs.k8s.io/yaml"
	"sigs.k8s.io/yaml/kyaml"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/columns"
	"github.com/larder-dev/larder/internal/progress"
	"github.com/larder-dev/larder/snapshot"
)

// IO has the streams, the clock and the terminal settings of a command.
type IO struct {
	Out, Err io.Writer
	// Now returns the current time. Default: time.Now.
	Now func() time.Time
	// Program is the name under which the process was started: larder, or kubectl-larder as a plugin of kubectl.
	Program string
	// OutIsTerminal says that standard output is a terminal. Control characters are then escaped, in every output format.
	OutIsTerminal bool
	// TerminalSize returns the columns and lines of Out, or 0 if Out is not a terminal.
	TerminalSize func() (width, height int)
	// ErrIsTerminal says that standard error is a terminal. Commands then show their progress on standard error.
	ErrIsTerminal bool
	// Colours says that standard output is a terminal that shows colours.
	Colours bool
	// SetLogger sets the global logger, which libraries without a logger of their own use. Default: the global logger
	// is not changed.
	SetLogger func(logr.Logger)
	// AskSecret prompts on the terminal and reads a line without echo. It is nil without a terminal.
	AskSecret func(prompt string) (string, error)
	// PassphraseWork is the scrypt work factor, as a power of two, of passphrases for new snapshots. Default: age's own.
	// Tests set a low factor.
	PassphraseWork int
}

// Terminal returns the writer to standard output that does not escape control characters, for larder's own colours and
// cursor movements.
func (s IO) Terminal() io.Writer { return terminal.Unescaped(s.Out) }

// screen returns the writer to standard error that does not escape control characters, for the progress bar.
func (s IO) screen() io.Writer { return terminal.Unescaped(s.Err) }

// Bar shows the progress of a save or a restore on a terminal. tell receives the progress; done removes the bar.
func (s IO) Bar(title string) (tell func(snapshot.Progress), done func()) {
	var b *progress.Bar
	shown := 0
	tell = func(p snapshot.Progress) {
		if b == nil {
			b = progress.Start(s.screen(), s.ErrIsTerminal, title, int64(p.TotalObjects))
		}
		b.Add(p.Objects - shown)
		shown = p.Objects
	}
	return tell, func() { b.Done() }
}

// Busy shows on a terminal that work is in progress. done removes it.
func (s IO) Busy(title string) (done func()) {
	return progress.Busy(s.screen(), s.ErrIsTerminal, title)
}

// Counted returns src with a progress bar that counts the records read from src. done removes the bar. printing says
// that the command prints to standard output while it reads; on a terminal, no bar is then shown.
func (s IO) Counted(
	ctx context.Context, title string, src snapshot.Source, printing bool,
) (counted snapshot.Source, done func(), err error) {
	all, err := src.Collections(ctx)
	if err != nil {
		return nil, nil, err
	}
	total := 0
	for _, c := range all {
		total += c.Objects
	}
	width, _ := s.TerminalSize()
	b := progress.Start(s.screen(), s.ErrIsTerminal && !(printing && width > 0), title, int64(total))
	return &countedSource{src, b}, b.Done, nil
}

type countedSource struct {
	snapshot.Source
	bar *progress.Bar
}

func (c *countedSource) Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error {
	return c.Source.Records(ctx, id, func(r entry.Entry) error {
		c.bar.Add(1)
		return fn(r)
	})
}

// Counted returns a number followed by its noun, in the singular or with a plural s.
func Counted(n int, noun string) string { return CountedAs(n, noun, noun+"s") }

// CountedAs returns n followed by a noun: one if n is 1, and more otherwise.
func CountedAs(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// CountedObjects returns a number followed by "object" or "objects".
func CountedObjects(n int) string { return Counted(n, "object") }

// Within returns a text with a number of objects and a number of collections, such as "12 objects in 3 collections".
func Within(objects, collections int) string {
	return fmt.Sprintf("%s in %s", CountedObjects(objects), Counted(collections, "collection"))
}

// PrintJSON prints v to standard output as indented JSON.
func PrintJSON(s IO, v any) error {
	enc := json.NewEncoder(s.Out)
	enc.SetIndent("", "    ")
	return enc.Encode(v)
}

// OrDash returns s, or "-" if s is empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Size formats a number of bytes in binary units.
func Size(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/(1<<10), 0
	for v >= 1000 && unit < 3 {
		v /= 1 << 10
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGT"[unit])
}

// AgeOf returns the time since t in kubectl's format. A time in the future, after a clock was set back, has the age 0.
func AgeOf(now, t time.Time) string { return columns.Age(now, t) }

// Flushed flushes out and joins the error of the flush to err, unless err already contains that error.
func Flushed(err error, out *bufio.Writer) error {
	if last := out.Flush(); last != nil && !errors.Is(err, last) {
		return errors.Join(err, last)
	}
	return err
}

// ToYAML writes v as YAML that decodes to v. yaml.Marshal parses the JSON of v as YAML, which fails on characters that
// YAML allows only as escapes (DEL, C1), and turns U+0085 into a space.
func ToYAML(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(escapeForYAML(text))
}

// ToKYAML writes v as KYAML, a subset of YAML that kubectl also prints. It escapes the same characters as ToYAML.
func ToKYAML(v any, w io.Writer) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return new(kyaml.Encoder).FromYAML(bytes.NewReader(escapeForYAML(text)), w)
}

// escapeForYAML escapes the characters in JSON that a YAML parser rejects or takes for a line break.
func escapeForYAML(text []byte) []byte {
	special := func(r rune) bool { return r >= 0x7f && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff }
	if !bytes.ContainsFunc(text, special) {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	for _, r := range string(text) { // iterating runes is safe: json.Marshal has replaced invalid UTF-8
		if special(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// WithoutCanceled returns logger without the errors of cancelled requests, because client-go logs each request that the
// interruption of a command cancels. It also drops the info messages in reported, which the command reports itself.
func WithoutCanceled(logger logr.Logger, reported ...string) logr.Logger {
	return logr.New(&canceledSink{logger.GetSink(), reported})
}

type canceledSink struct {
	to       logr.LogSink
	reported []string
}

// Init implements logr.LogSink. It adds one to the call depth, because a method of canceledSink calls the wrapped sink.
func (s *canceledSink) Init(info logr.RuntimeInfo) {
	info.CallDepth++
	s.to.Init(info)
}

func (s *canceledSink) Enabled(level int) bool { return s.to.Enabled(level) }

func (s *canceledSink) Info(level int, msg string, keysAndValues ...any) {
	if !slices.Contains(s.reported, msg) {
		s.to.Info(level, msg, keysAndValues...)
	}
}

func (s *canceledSink) Error(err error, msg string, keysAndValues ...any) {
	if !isCanceled(err) {
		s.to.Error(err, msg, keysAndValues...)
	}
}

// isCanceled reports whether err is context.Canceled, wrapped or not, and nothing else. A joined error may also contain
// other failures, which must be logged.
func isCanceled(err error) bool {
	for err != nil && err != context.Canceled { //nolint:errorlint // errors.Is would find it among joined errors
		err = errors.Unwrap(err)
	}
	return err != nil
}

func (s *canceledSink) WithValues(keysAndValues ...any) logr.LogSink {
	return &canceledSink{s.to.WithValues(keysAndValues...), s.reported}
}

func (s *canceledSink) WithName(name string) logr.LogSink {
	return &canceledSink{s.to.WithName(name), s.reported}
}

func (s *canceledSink) WithCallDepth(depth int) logr.LogSink {
	if to, ok := s.to.(logr.CallDepthLogSink); ok {
		return &canceledSink{to.WithCallDepth(depth), s.reported}
	}
	return s
}
