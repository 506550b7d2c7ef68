package mirror

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2/textlogger"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/terminal"
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
