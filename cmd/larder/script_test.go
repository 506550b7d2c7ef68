package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/larder-dev/larder/store"
)

// patience is the time after which a script command that waits for a condition fails.
const patience = 30 * time.Second

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			c := newCluster(env)
			env.Values[clusterKey{}] = c
			env.Defer(c.close)
			env.Setenv("OWNER", fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"server":     server,
			"eventually": eventually,
			"code":       code,
			"terminate":  terminate,
			"hold":       hold,
			"program":    program,
			"damage":     damage,
			"agekey":     agekey,
			"killed":     killed,
			"only":       only,
			"hangup":     hangup,
			"freeze":     freeze,
			"thaw":       thaw,
			"fetch":      fetch,
		},
	})
}

// eventually is the script command that repeats a program until its standard output matches: eventually PATTERN PROGRAM
// ARG… The pauses grow, to leave processor time to the process that the script waits for.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually PATTERN PROGRAM ARG…")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	deadline := time.After(patience)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 400*time.Millisecond) {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		select {
		case <-deadline:
			ts.Fatalf("%q did not come in %s; last: %v\n%s%s", args[0], patience, err, ts.ReadFile("stdout"),
				ts.ReadFile("stderr"))
		case <-time.After(pause):
		}
	}
}

// code is the script command that runs a program and fails unless its exit code is N: code N PROGRAM ARG…
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N PROGRAM ARG…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d\n%s%s", got, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// terminate is the script command that sends SIGTERM to the background command started last.
func terminate(ts *testscript.TestScript, neg bool, args []string) {
	background := ts.BackgroundCmds()
	if neg || len(args) > 0 || len(background) == 0 {
		ts.Fatalf("usage: terminate, with a background command")
	}
	ts.Check(background[len(background)-1].Process.Signal(syscall.SIGTERM))
}

// hold is the script command that keeps a store open until the script ends, as a program other than larder sync would.
func hold(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: hold FILE")
	}
	st, err := store.Open(ts.MkAbs(args[0]), store.Options{})
	ts.Check(err)
	ts.Defer(func() { _ = st.Close() })
}
