// Package command is what the commands of larder share, whatever they do: their streams ([IO]), their errors with hints
// and exit codes, flags and arguments that several take, and how numbers, sizes and ages are written.
//
// An error that a command returns is printed once, with its hint ([WithHint]), and decides the exit code: 2 for one of
// [Usage], what [Coded] says, else 1. [ErrSilent] has been told already, and [IfInterrupted] says of a command that was
// asked to end how it leaves things.
package command
