package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/file"
	"github.com/larder-dev/larder/internal/cli/mirror"
	"github.com/larder-dev/larder/internal/cli/query"
	"github.com/larder-dev/larder/internal/cli/serving"
	"github.com/larder-dev/larder/internal/cli/snapshots"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

func newRoot(s command.IO) *cobra.Command {
	root := &cobra.Command{
		Use:   "larder",
		Short: "A persistent mirror of Kubernetes resources",
		Long: `Larder mirrors resources of a Kubernetes cluster into one file. A restart resumes the
watch from the file instead of listing again, and the file can be read without an API server.

  larder sync pods deployments --store cluster.db         mirror until stopped
  larder get pods -A --from cluster.db                    read, also offline or while sync runs
  larder snapshot save cluster.larder --from cluster.db   save it to a file that every command reads

LARDER_STORE names the store if no flag does. A file may also come before the resources: larder get cluster.db pods -A.

Exit codes: 0 success; 1 the request failed, found nothing, or found problems; 2 wrong usage.
larder diff: 0 no difference; 1 a difference; 2 wrong usage; 3 not compared.`,
		Version:       versionText(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return command.UnknownCommand(cmd, args[0], args[1:]...)
		},
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: displayName(s.Program)},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(mirror.NewSync(s), query.NewGet(s), query.NewWatch(s), query.NewLog(s),
		file.NewStatus(s), file.NewWait(s), file.NewCheck(s),
		query.NewDiff(s), snapshots.NewSnapshot(s), serving.NewServe(s),
		file.NewCompact(s), file.NewKeygen(s), file.NewChown(), newVersion(s), newCompletion(s))
	for _, sub := range root.Commands() {
		if sub.ValidArgsFunction == nil && len(sub.ValidArgs) == 0 {
			sub.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
	if name := displayName(s.Program); name != "larder" {
		asNamed(root, name)
	}
	fitHelp(root, s)
	return root
}

// displayName returns the program's name for usage lines. For kubectl-larder it is `kubectl larder`: kubectl runs
// plugins under that name.
func displayName(program string) string {
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	if plugin, ok := strings.CutPrefix(name, "kubectl-"); ok {
		return "kubectl " + strings.ReplaceAll(plugin, "_", "-")
	}
	return "larder"
}

// flagError returns the usage error for an invalid flag. If cmd has subcommands and an argument is left over, the user
// has probably misspelled a subcommand. The error then reports the misspelling instead of the flag.
func flagError(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasAvailableSubCommands() && len(args) > 0 {
		return command.UnknownCommand(cmd, args[0])
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		switch invalid.GetFlag().Value.(type) {
		case *command.SizeValue, *command.AgeValue:
			// The errors of some flag types already name the flag and its valid values.
			return command.Usagef("--%s %w", invalid.GetFlag().Name, invalid.Unwrap())
		}
	}
	return command.Usagef("%w; see %s --help", err, cmd.CommandPath())
}

// leastHelp is the narrowest terminal, in columns, to which help is fitted.
const leastHelp = 40

// fitHelp makes every command fit its help to the terminal's width. Without a terminal, or on a terminal narrower than
// leastHelp, help is printed unchanged.
func fitHelp(root *cobra.Command, s command.IO) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		width, _ := s.TerminalSize()
		if width < leastHelp {
			help(cmd, args)
			return
		}
		var text bytes.Buffer
		cmd.SetOut(&text)
		help(cmd, args)
		cmd.SetOut(nil) // nil is cobra's default: the command prints to the writer of its parent
		_, _ = io.WriteString(s.Out, fitted(text.String(), width))
	})
}

// fitted wraps a help text to width columns. It refills paragraphs. Each indented line, such as a flag, starts a new
// line; its continuation lines are indented to the line's second column (see hanging).
func fitted(text string, width int) string {
	var out strings.Builder
	var paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			fill(&out, strings.Join(paragraph, " "), 0, width)
			paragraph = nil
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		if line != "" && line[0] != ' ' {
			paragraph = append(paragraph, line)
			if strings.HasSuffix(line, ":") {
				// A line that ends with a colon, such as a heading, is not joined with the next line.
				end()
			}
			continue
		}
		end()
		if line == "" {
			fmt.Fprintln(&out)
			continue
		}
		fill(&out, line, hanging(line, width), width)
	}
	end()
	return out.String()
}

// gap matches the blanks between two columns of a help text, which are two or more.
var gap = regexp.MustCompile(`\S( {2,})\S`)

// hanging returns the indent of a line's continuation lines: the position of the line's second column, or, without a
// second column, four more than the line's own indent.
func hanging(line string, width int) int {
	if at := gap.FindStringSubmatchIndex(line); at != nil {
		if column := utf8.RuneCountInString(line[:at[3]]); column <= width/2 {
			return column
		}
	}
	return len(line) - len(strings.TrimLeft(line, " ")) + 4
}

func fill(out *strings.Builder, line string, indent, width int) {
	for utf8.RuneCountInString(line) > width {
		head := string([]rune(line)[:width+1])
		at := strings.LastIndex(head, " ")
		if strings.TrimSpace(head[:max(at, 0)]) == "" { // the first word is longer than the line: it is not broken
			break
		}
		fmt.Fprintln(out, strings.TrimRight(line[:at], " "))
		rest := strings.TrimLeft(line[at:], " ")
		word, _, _ := strings.Cut(rest, " ")
		line = strings.Repeat(" ", max(0, min(indent, width-utf8.RuneCountInString(word)))) + rest
	}
	fmt.Fprintln(out, line)
}

func newVersion(s command.IO) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and the formats of files",
		Args:  command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(s.Out, versionText())
			return err
		},
	}
}

func versionText() string {
	return fmt.Sprintf("larder %s (%s, %s/%s)\ncommit %s\nstore format %d, snapshot format %d",
		source.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, commit(), store.FormatVersion,
		snapshot.FormatVersion)
}

// commit returns the git commit from which the program was built, and the commit's time, as go build records them;
// "unknown" without that record. A program from go install larder@VERSION has no record: its version identifies it.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["vcs.revision"] == "" {
		return "unknown"
	}
	text := settings["vcs.revision"] + " of " + settings["vcs.time"]
	if settings["vcs.modified"] == "true" {
		text += ", with changes"
	}
	return text
}

func newCompletion(s command.IO) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that completes larder's command line in a shell",
		Long: `Print a script that completes larder's command line in a shell: commands, flags, files, output
formats, and names from the store of --from: resources, categories, objects, namespaces and collections. It also works
while larder sync holds the store. Give the file or --from before the word to complete, or set LARDER_STORE. In bash
the package bash-completion is not needed.

As a plugin, with larder installed as kubectl-larder, kubectl's own completion runs the program
kubectl_complete-larder in the PATH, which can be this script:

  #!/bin/sh
  exec kubectl larder __complete "$@"`,
		Example: `  source <(larder completion bash)
  larder completion zsh > "${fpath[1]}/_larder"
  larder completion fish > ~/.config/fish/completions/larder.fish`,
		ValidArgs: shells,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return command.Usagef("%s needs one of %s", cmd.CommandPath(), strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				if _, err := io.WriteString(s.Out, withoutBashCompletion); err != nil {
					return err
				}
				return root.GenBashCompletionV2(s.Out, true)
			case "zsh":
				return root.GenZshCompletion(s.Out)
			case "fish":
				return root.GenFishCompletion(s.Out, true)
			}
			return root.GenPowerShellCompletionWithDesc(s.Out)
		},
	}
}

// forCompletion removes the back quotes around value names from the usage texts of flags. Help texts need the back
// quotes, but a shell would show them with a completion.
func forCompletion(cmd *cobra.Command) {
	plain := func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") }
	cmd.Flags().VisitAll(plain)
	cmd.PersistentFlags().VisitAll(plain)
	for _, sub := range cmd.Commands() {
		forCompletion(sub)
	}
}

// ourCommand matches a command line of larder in a help text.
var ourCommand = regexp.MustCompile(`(kubectl )?\blarder ` +
	`(--help|sync|get|watch|status|check|diff|snapshot|compact|keygen|version|completion)\b`)

func asNamed(cmd *cobra.Command, name string) {
	for _, text := range []*string{&cmd.Long, &cmd.Example} {
		*text = ourCommand.ReplaceAllString(*text, name+" $2")
	}
	for _, sub := range cmd.Commands() {
		asNamed(sub, name)
	}
}
