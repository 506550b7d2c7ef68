package command

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/config"
)

// NeedArgs returns a cobra check that a command has at least least and at most most arguments; a negative most is no
// upper limit. what describes the arguments in the error.
func NeedArgs(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || (most >= 0 && len(args) > most) {
			return Usagef("%s needs %s; see %[1]s --help", cmd.CommandPath(), what)
		}
		return nil
	}
}

// NoArgs is a cobra check that rejects any argument.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("%s takes no argument, but was given %q; see %[1]s --help", cmd.CommandPath(), args[0])
	}
	return nil
}

// StoreFlag is the flag --store with the path of a store. Every command that writes a store has this flag.
type StoreFlag struct{ Path string }

// Add adds the flag.
func (f *StoreFlag) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Path, "store", "", "the store's `FILE` (required, or "+StoreVariable+")")
}

// Check sets the path to the value of the environment variable LARDER_STORE if the flag is not given. It fails if
// neither is set.
func (f *StoreFlag) Check() error {
	if f.Path = OrVariable(f.Path); f.Path == "" {
		return Required("store")
	}
	return nil
}

// OutputFlag is the flag -o of a command that supports some output formats.
type OutputFlag struct {
	Format  string
	formats []string
}

// Add adds the flag; the first format is the default.
func (f *OutputFlag) Add(cmd *cobra.Command, formats ...string) {
	f.formats = formats
	cmd.Flags().StringVarP(&f.Format, "output", "o", formats[0], "output `FORMAT`: "+strings.Join(formats, ", "))
}

// Check fails if the user has given a format that the command does not support.
func (f *OutputFlag) Check() error {
	for _, known := range f.formats {
		if f.Format == known {
			return nil
		}
	}
	return Usagef("unknown output format %q; known are %s", f.Format, strings.Join(f.formats, ", "))
}

// StoreVariable is the environment variable with the path of the store. A command uses it if its own flag is not given.
const StoreVariable = "LARDER_STORE"

// OrVariable returns path, or the value of the environment variable LARDER_STORE if path is empty.
func OrVariable(path string) string {
	if path != "" {
		return path
	}
	return os.Getenv(StoreVariable)
}

// OnlyFile sets *path to the command's only argument, the file to read. It fails if the given flag has set *path
// already.
func OnlyFile(path *string, flag string, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case *path != "":
		return Usagef("%q and --%s %s: name one file", args[0], flag, *path)
	}
	*path = args[0]
	return nil
}

// MaxOneFile is the cobra check for commands whose only argument is a file (see OnlyFile).
var MaxOneFile = NeedArgs(0, 1, "one file at most")

// Required returns the usage error for a flag that must name a file and was not given.
func Required(flag string) error {
	err := fmt.Errorf("--%s FILE is required", flag)
	return Usage(WithHint(err, "or set the environment variable %s", StoreVariable))
}

// SizeValue is a flag value in bytes, in the syntax of maxSize in the configuration file, such as 512Mi; 0 is no limit.
type SizeValue int64

// Set implements pflag.Value.
func (v *SizeValue) Set(s string) error {
	n, err := config.Size(s)
	*v = SizeValue(n)
	return err
}

func (v *SizeValue) String() string {
	if *v == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*v), 10)
}

// Type implements pflag.Value.
func (v *SizeValue) Type() string { return "size" }

// AgeValue is a flag value in the syntax of retention.changes in the configuration file, such as 7d or 36h. "0" and
// "never" are 0.
type AgeValue time.Duration

// Set implements pflag.Value.
func (v *AgeValue) Set(s string) error {
	if s == "0" {
		*v = 0
		return nil
	}
	d, err := config.Age(s)
	*v = AgeValue(max(0, d))
	return err
}

func (v *AgeValue) String() string {
	if *v == 0 {
		return ""
	}
	return Span(time.Duration(*v))
}

// Type implements pflag.Value.
func (v *AgeValue) Type() string { return "duration" }

// Span formats a duration in the short form that AgeValue parses: 7d, 24h, 1h30m.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day && d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Completer returns the shell completions of a command's argument, or of a flag's value.
type Completer = func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective)

// CompleteFlag sets the completer of a flag's value. It panics if the flag does not exist.
func CompleteFlag(cmd *cobra.Command, flag string, f Completer) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

// WithPrefix returns the strings that begin with the typed prefix.
func WithPrefix(all []string, typed string) []cobra.Completion {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.HasPrefix(s, typed) })
}

// CompleteFile completes a file name as the first argument, and nothing after it.
func CompleteFile(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}
