// Package command has the parts that the commands share: their streams ([IO]), errors with hints and exit codes, common
// flags and arguments, and the formats of numbers, sizes and ages.
//
// A command's error is printed once, with its hint ([WithHint]), and decides the exit code: the code of [Coded], 2 for
// [Usage], and 1 otherwise. [ErrSilent] means that the failure has been reported already. [IfInterrupted] replaces the
// error of an interrupted command by an error that says in which state the command left its files.
package command
