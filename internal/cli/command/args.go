package command

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// NeedArgs checks the number of arguments; most below 0 is no limit.
func NeedArgs(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || (most >= 0 && len(args) > most) {
			return Usagef("%s needs %s; see %[1]s --help", cmd.CommandPath(), what)
		}
		return nil
	}
}

// NoArgs is for commands without arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("%s takes no argument, but was given %q; see %[1]s --help", cmd.CommandPath(), args[0])
	}
	return nil
}

// StoreFlag is --store, which every command that writes a store needs.
type StoreFlag struct{ Path string }

// Add adds the flag.
func (f *StoreFlag) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Path, "store", "", "the store's `FILE` (required, or "+StoreVariable+")")
}

// Check takes the variable for a flag that is not given, and fails without both.
func (f *StoreFlag) Check() error {
	if f.Path = OrVariable(f.Path); f.Path == "" {
		return Required("store")
	}
	return nil
}

// OutputFlag is -o with the formats that a command knows.
type OutputFlag struct {
	Format  string
	formats []string
}

// Add adds the flag; the first format is the default.
func (f *OutputFlag) Add(cmd *cobra.Command, formats ...string) {
	f.formats = formats
	cmd.Flags().StringVarP(&f.Format, "output", "o", formats[0], "output `FORMAT`: "+strings.Join(formats, ", "))
}

// Check fails for a format that is not known.
func (f *OutputFlag) Check() error {
	for _, known := range f.formats {
		if f.Format == known {
			return nil
		}
	}
	return Usagef("unknown output format %q; known are %s", f.Format, strings.Join(f.formats, ", "))
}

// StoreVariable names the file of a store where no flag does.
const StoreVariable = "LARDER_STORE"

// OrVariable is a path that a flag names, or the one of the variable.
func OrVariable(path string) string {
	if path != "" {
		return path
	}
	return os.Getenv(StoreVariable)
}

// OnlyFile takes the one argument of a command that reads a file, in the place of the flag that names it.
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

// MaxOneFile is the Args of such a command.
var MaxOneFile = NeedArgs(0, 1, "one file at most")

// Required is the error for a file that nobody has named.
func Required(flag string) error {
	err := fmt.Errorf("--%s FILE is required", flag)
	return Usage(WithHint(err, "or set the environment variable %s", StoreVariable))
}
