package clitest

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

var (
	message     = regexp.MustCompile(`^(error|hint|note): `)
	commandLine = regexp.MustCompile(
		`(?:^|[ (":])(larder( snapshot)? [a-z][a-z-]*|kubectl|age-keygen|minisign|kill|rm|mv|systemd-run)\b`)
	// flagOf captures a command-line flag in a text.
	flagOf    = regexp.MustCompile(`(?:^|[ ("])(--[a-z][a-z-]*[a-z]|-[a-zA-Z])(?:[^a-zA-Z0-9%-]|$)`)
	clauseEnd = regexp.MustCompile(`;|\. |, or `)
)

// UnknownFlags returns the flags in messages on standard error that do not exist. A flag within a command line must
// belong to the command of that line, any other flag to cmd.
func UnknownFlags(cmd *cobra.Command, said string) (flags []string) {
	for line := range strings.Lines(said) {
		if message.MatchString(line) && !strings.Contains(line, "unknown flag") &&
			!strings.Contains(line, "unknown shorthand") {
			flags = append(flags, UnknownFlagsIn(line, func(of *cobra.Command, flag string) bool {
				if of == nil {
					of = cmd
				}
				return Has(of, flag)
			}, cmd.Root())...)
		}
	}
	return flags
}

// UnknownFlagsIn returns the flags in text for which has returns false. has receives the command of the command line
// that contains the flag, or nil if the flag is outside a command line. Flags of other programs are skipped.
func UnknownFlagsIn(text string, has func(of *cobra.Command, flag string) bool, root *cobra.Command) (flags []string) {
	for _, clause := range clauseEnd.Split(text, -1) {
		for _, at := range flagOf.FindAllStringSubmatchIndex(clause, -1) {
			of, ours := commandOf(root, clause[:at[2]])
			if flag := clause[at[2]:at[3]]; ours && !has(of, flag) {
				flags = append(flags, flag)
			}
		}
	}
	return flags
}

// commandOf returns the larder command of the last command line in text, if any. ours is false if the last command line
// is of another program.
func commandOf(root *cobra.Command, text string) (of *cobra.Command, ours bool) {
	all := commandLine.FindAllString(text, -1)
	if len(all) == 0 {
		return nil, true
	}
	words := strings.Fields(strings.TrimLeft(all[len(all)-1], `(":`))
	if words[0] != "larder" {
		return nil, false
	}
	found, _, err := root.Find(words[1:])
	if err != nil || found == root {
		return nil, true // the word after larder is no command, but the program is larder
	}
	return found, true
}

func Has(cmd *cobra.Command, flag string) bool {
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	if name, ok := strings.CutPrefix(flag, "--"); ok {
		return cmd.Flag(name) != nil
	}
	return cmd.Flags().ShorthandLookup(flag[1:]) != nil
}
