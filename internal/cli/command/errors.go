package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// OK and the other exit codes are documented in larder --help.
const (
	OK          = 0
	Failed      = 1
	UsedWrongly = 2
	// NotCompared is the exit code of larder diff for failures that are exit code 1 in other commands, because diff exits
	// with 1 if it finds a difference.
	NotCompared = 3
)

type codedError struct {
	error
	code int
}

func (e codedError) Unwrap() error { return e.error }

type usageError struct{ error }

// Usage marks err as wrong usage of the command line, which has exit code 2.
func Usage(err error) error { return usageError{err} }

// Usagef formats an error like fmt.Errorf and marks it as wrong usage.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

func (e usageError) Unwrap() error { return e.error }

type reworded struct {
	error
	is error
}

func (e reworded) Unwrap() error { return e.is }

// Reworded returns an error with a new text, for which errors.Is(err, is) is true.
func Reworded(is error, format string, args ...any) error {
	return reworded{fmt.Errorf(format, args...), is}
}

// ErrSilent is the error of a command that has already printed its failure: only the exit code is left to set.
var ErrSilent = errors.New("failed")

type hinted struct {
	error
	hint string
}

func (e hinted) Unwrap() error { return e.error }

// WithHint adds to err a hint that says what to do; nil stays nil.
func WithHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return hinted{err, fmt.Sprintf(format, args...)}
}

// Coded returns err as an error that makes the process exit with the given code.
func Coded(err error, code int) error { return codedError{err, code} }

// ExitCode returns the process's exit code for the error of a command.
func ExitCode(err error) int {
	var usedWrongly usageError
	var withCode codedError
	switch {
	case err == nil:
		return OK
	case errors.As(err, &withCode):
		return withCode.code
	case errors.As(err, &usedWrongly):
		return UsedWrongly
	}
	return Failed
}

type interruptedError struct {
	// left says in which state the command left its files; it may be empty.
	left string
	err  error
}

func (e *interruptedError) Error() string {
	if e.left == "" {
		return "interrupted"
	}
	return fmt.Sprintf("interrupted: %s", e.left)
}

func (e *interruptedError) Unwrap() error { return e.err }

// IfInterrupted returns err if ctx has not ended. Otherwise err is only a consequence of the interruption, and
// IfInterrupted returns an interruptedError with the exit code of err. left says in which state the command left its
// files.
func IfInterrupted(ctx context.Context, err error, left string) error {
	var already *interruptedError
	if err == nil || ctx.Err() == nil || errors.As(err, &already) || errors.Is(err, ErrSilent) {
		return err
	}
	return &interruptedError{left, Coded(context.Canceled, ExitCode(err))}
}

// HintOf returns the hint for the user that an error carries; "" if it has none.
func HintOf(err error) string {
	var h hinted
	if errors.As(err, &h) {
		return h.hint
	}
	return ""
}

// UnknownCommand returns the usage error for a word that is not a subcommand of cmd. args are the arguments after it.
func UnknownCommand(cmd *cobra.Command, word string, args ...string) error {
	name := word
	if cmd.HasParent() {
		name = cmd.Name() + " " + word
	} else if err := ofKubectl(cmd.DisplayName(), word, args); err != nil {
		return Usage(err)
	}
	var near []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && Near(word, sub.Name()) {
			near = append(near, sub.Name())
		}
	}
	if len(near) > 0 {
		return Usagef("unknown command %q; did you mean %s?", name, strings.Join(near, " or "))
	}
	return Usagef("unknown command %q; see %s --help", name, cmd.CommandPath())
}

// kubectlReads and the other lists have kubectl's commands that larder lacks, by the hint in the error.
var (
	kubectlReads  = []string{"describe", "explain", "events", "api-resources", "api-versions", "auth", "cluster-info"}
	kubectlWrites = []string{"annotate", "apply", "autoscale", "certificate", "cordon", "create", "delete", "drain",
		"edit", "expose", "label", "patch", "replace", "rollout", "run", "scale", "set", "taint", "uncordon"}
	kubectlConnects = []string{"attach", "cp", "debug", "exec", "port-forward"}
)

// ofKubectl returns the error for a command that kubectl has and larder does not; nil for other words. The hint has
// command lines that begin with larder, the program's name.
func ofKubectl(larder, word string, args []string) error {
	unknown := func(text string) error { return fmt.Errorf("unknown command %q: %s", word, text) }
	serve := larder + " serve --from FILE -- kubectl "
	switch {
	case slices.Contains(kubectlReads, word):
		rest := "…"
		if len(args) > 0 {
			rest = strings.Join(args, " ")
		}
		return WithHint(unknown("it is kubectl's"), "kubectl reads a store through larder serve: %s%s %s", serve, word, rest)
	case word == "logs":
		return WithHint(unknown("a store has objects, and no logs of containers"),
			"kubectl logs asks the API server; the events of pods are objects: %sevents", serve)
	case word == "top":
		return WithHint(unknown("a store has objects, and no measurements"),
			"kubectl top asks the API server; requests and limits by node: %sdescribe nodes", serve)
	case slices.Contains(kubectlWrites, word):
		return WithHint(unknown("larder only reads"), "kubectl %s asks the API server", word)
	case slices.Contains(kubectlConnects, word):
		return WithHint(unknown("larder only reads objects"), "kubectl %s asks the API server", word)
	}
	return nil
}

// Near reports whether word is probably a misspelling of meant: the number of edits is at most one for every four
// letters, but one is always allowed, and never more than two. Swapping two neighbouring letters is one edit.
func Near(word, meant string) bool {
	return distance(strings.ToLower(word), meant) <= min(2, max(1, len(word)/4))
}

func distance(a, b string) int {
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := row[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			next[j] = min(replaced, row[j]+1, next[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
