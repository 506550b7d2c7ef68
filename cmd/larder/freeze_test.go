package main

import (
	"os/exec"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// freeze is the script command that suspends the background command started last, as kill -STOP does, until thaw or the
// end of the script.
func freeze(ts *testscript.TestScript, neg bool, args []string) {
	pid := lastPID(ts, "freeze", neg || len(args) > 0)
	ts.Check(signal(pid, "-STOP"))
	// After a failed script the command must not stay suspended. The error is ignored, because the process may have ended.
	ts.Defer(func() { _ = signal(pid, "-CONT") })
}

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
