package command

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
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

func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("%s takes no argument, but was given %q; see %[1]s --help", cmd.CommandPath(), args[0])
	}
	return nil
}

type StoreFlag struct{ Path string }

func (f *StoreFlag) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Path, "store", "", "the store's `FILE` (required, or "+StoreVariable+")")
}

func (f *StoreFlag) Check() error {
	if f.Path = OrVariable(f.Path); f.Path == "" {
		return Required("store")
	}
	return nil
}

type OutputFlag struct {
	Format  string
	formats []string
}

func (f *OutputFlag) Add(cmd *cobra.Command, formats ...string) {
	f.formats = formats
	cmd.Flags().StringVarP(&f.Format, "output", "o", formats[0], "output `FORMAT`: "+strings.Join(formats, ", "))
}

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

var MaxOneFile = NeedArgs(0, 1, "one file at most")

func Required(flag string) error {
	err := fmt.Errorf("--%s FILE is required", flag)
	return Usage(WithHint(err, "or set the environment variable %s", StoreVariable))
}
