package cli

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/larder-dev/larder/internal/config"
)

// sizeValue is a flag that is read as the configuration's maxSize is; 0 is none.
type sizeValue int64

// Set implements pflag.Value.
func (v *sizeValue) Set(s string) error {
	n, err := config.Size(s)
	*v = sizeValue(n)
	return err
}

// String implements pflag.Value.
func (v *sizeValue) String() string {
	if *v == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*v), 10)
}

// Type implements pflag.Value.
func (v *sizeValue) Type() string { return "size" }

// ageValue is a flag that is read as the configuration's retention.changes is: 0 is not at all, and so is never.
type ageValue time.Duration

// Set implements pflag.Value.
func (v *ageValue) Set(s string) error {
	if s == "0" {
		*v = 0
		return nil
	}
	d, err := config.Age(s)
	*v = ageValue(max(0, d))
	return err
}

// String implements pflag.Value.
func (v *ageValue) String() string {
	if *v == 0 {
		return ""
	}
	return span(time.Duration(*v))
}

// Type implements pflag.Value.
func (v *ageValue) Type() string { return "duration" }

// span writes a time span as people do, and as ageValue reads it: 7d, 24h, 1h30m.
func span(d time.Duration) string {
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

// flagError is what is wrong with a command's flags. A command that there is not has none: then it is the command that
// is wrong.
func flagError(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasAvailableSubCommands() && len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		switch invalid.GetFlag().Value.(type) {
		case *sizeValue, *ageValue: // their errors say it all
			return usagef("--%s %w", invalid.GetFlag().Name, invalid.Unwrap())
		}
	}
	return usagef("%w; see %s --help", err, cmd.CommandPath())
}

// unknownCommand is the error for a word that is no command of cmd.
func unknownCommand(cmd *cobra.Command, word string) error {
	name := word
	if cmd.HasParent() {
		name = cmd.Name() + " " + word
	}
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		return usagef("unknown command %q; did you mean %s?", name, strings.Join(near, " or "))
	}
	return usagef("unknown command %q; see %s --help", name, cmd.CommandPath())
}
