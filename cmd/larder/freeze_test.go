package main

import (
	"os/exec"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// freeze suspends the background command that the script started last, as kill -STOP does, until the script runs thaw
// or ends.
func freeze(ts *testscript.TestScript, neg bool, args []string) {
	pid := lastPID(ts, "freeze", neg || len(args) > 0)
	ts.Check(signal(pid, "-STOP"))
	// so that the process can end after a failed script; otherwise it has ended and the error is ignored
	ts.Defer(func() { _ = signal(pid, "-CONT") })
}

// thaw resumes the background command that freeze has suspended.
func thaw(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(signal(lastPID(ts, "thaw", neg || len(args) > 0), "-CONT"))
}

func lastPID(ts *testscript.TestScript, command string, wrong bool) int {
	background := ts.BackgroundCmds()
	if wrong || len(background) == 0 {
		ts.Fatalf("usage: %s, with a background command", command)
	}
	return background[len(background)-1].Process.Pid
}

// signal runs kill(1), because package syscall lacks these signals on Windows.
func signal(pid int, name string) error { return exec.Command("kill", name, strconv.Itoa(pid)).Run() }
