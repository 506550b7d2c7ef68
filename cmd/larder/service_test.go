package main

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// hangup is the script command that sends SIGHUP to the background command started last.
func hangup(ts *testscript.TestScript, neg bool, args []string) {
	background := ts.BackgroundCmds()
	if neg || len(args) > 0 || len(background) == 0 {
		ts.Fatalf("usage: hangup, with a background command")
	}
	ts.Check(background[len(background)-1].Process.Signal(syscall.SIGHUP))
}

// fetch is the script command that requests a path from the sync that holds the store FILE, until status and body
// match: fetch FILE PATH STATUS PATTERN
func fetch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: fetch FILE PATH STATUS PATTERN")
	}
	pattern, err := regexp.Compile("(?m)" + args[3])
	ts.Check(err)
	deadline := time.After(patience)
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for {
		status, body := ask(ts, args[0], args[1])
		if strconv.Itoa(status) == args[2] && pattern.MatchString(body) {
			return
		}
		select {
		case <-deadline:
			ts.Fatalf("%s with %s and %q did not come in %s; last: %d\n%s", args[1], args[2], args[3], patience, status, body)
		case <-retry.C:
		}
	}
}

// ask requests a path from the health server whose address is in the status of the store's sync. Without an answer the
// returned HTTP status is 0.
func ask(ts *testscript.TestScript, store, path string) (status int, body string) {
	if err := ts.Exec("larder", "status", "--from", store, "-o", "json"); err != nil {
		return 0, err.Error()
	}
	var described struct {
		Sync struct{ Listen string }
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &described))
	client := http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + described.Sync.Listen + path)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(data)
}
