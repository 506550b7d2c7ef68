package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/fakeapi"
)

func runs(ctx context.Context, args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = Run(ctx, args, command.IO{Out: &o, Err: &e, Now: time.Now})
	return code, o.String(), e.String()
}

func aPod(t *testing.T) (host string, file func(name string) string) {
	t.Helper()
	server := clitest.StartServer(t)
	clitest.CreatePod(t, server, "a", "x", nil)
	dir := t.TempDir()
	return "--server=" + server.Config().Host, func(name string) string { return filepath.Join(dir, name) }
}

// TestInterrupted checks that an interrupted command reports the interruption and the state of its files, instead of
// failures that the interruption causes.
func TestInterrupted(t *testing.T) {
	host, file := aPod(t)
	for _, args := range [][]string{
		{"snapshot", "save", file("s.larder"), "pods", host},
		{"snapshot", "restore", file("s.larder"), "--store", file("s.db")},
	} {
		if code, _, errs := runs(t.Context(), args...); code != command.OK {
			t.Fatalf("%v: %s", args, errs)
		}
	}
	whole, err := os.ReadFile(file("s.larder"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file("half.larder"), whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	before := filesIn(t, file(""))
	ended, end := context.WithCancel(t.Context())
	end()
	for _, tc := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"snapshot", "save", file("n.larder"), "--from", file("s.db")}, "interrupted: nothing was written", 1},
		{[]string{"snapshot", "save", file("n.larder"), "--from", file("s.larder")}, "interrupted: nothing was written", 1},
		{[]string{"snapshot", "restore", file("s.larder"), "--store", file("n.db")}, "interrupted: no store was made", 1},
		{[]string{"snapshot", "export", file("out"), "--from", file("s.larder")},
			"interrupted: some files may be written; remove them and export again", 1},
		{[]string{"check", "--from", file("s.db")}, "interrupted: not everything was verified", 1},
		// A truncated snapshot: the command is interrupted before it has found how much of the file is readable.
		{[]string{"check", "--from", file("half.larder")}, "interrupted: not everything was verified", 1},
		{[]string{"get", "pods", "--from", file("half.larder")}, "interrupted", 1},
		{[]string{"compact", "--store", file("s.db")}, "interrupted: the file is as it was", 1},
		{[]string{"diff", file("s.larder"), file("s.db")}, "interrupted", 3},
	} {
		code, out, errs := runs(ended, tc.args...)
		if code != tc.code || out != "" || !strings.HasSuffix(errs, "error: "+tc.want+"\n") ||
			strings.Contains(errs, "hint") {
			t.Errorf("%s: %d %q %q", strings.Join(tc.args[:2], " "), code, out, errs)
		}
	}
	if now := filesIn(t, file("")); !slices.Equal(now, before) {
		t.Errorf("%v is there, and before it was %v", now, before)
	}
}

// TestInterruptedDuringClusterIDRequest checks that a live save that is interrupted while it requests the cluster's ID
// does not report that the server refused the request.
func TestInterruptedDuringClusterIDRequest(t *testing.T) {
	host, file := aPod(t)
	to, err := url.Parse(strings.TrimPrefix(host, "--server="))
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	pass := httputil.NewSingleHostReverseProxy(to)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/namespaces/kube-system" {
			end()
			<-r.Context().Done()
			return
		}
		pass.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	code, out, errs := runs(ctx, "snapshot", "save", file("n.larder"), "pods", "--server="+proxy.URL)
	if want := "error: interrupted: nothing was written\n"; code != command.Failed || out != "" || errs != want {
		t.Errorf("%d %q %q, want %q", code, out, errs, want)
	}
}

// hungBody starts a server whose responses begin and never end. It calls reading once the client must be reading a
// response body: the bytes written by then exceed all buffers between server and client.
func hungBody(t *testing.T, reading func()) (host string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(bytes.Repeat([]byte(" "), 32<<20))
		reading()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	return "--server=" + server.URL
}

// TestInterruptedWhileReadingTheResources interrupts commands while they read the server's discovery over a slow
// connection. The cancelled request is not reported as an error, and the command says in which state it leaves its
// files. An interrupted sync exits with 0.
func TestInterruptedWhileReadingTheResources(t *testing.T) {
	known, file := aPod(t)
	if code, _, errs := runs(t.Context(), "snapshot", "save", file("s.larder"), "pods", known); code != command.OK {
		t.Fatal(errs)
	}
	restored, _, errs := runs(t.Context(), "snapshot", "restore", file("s.larder"), "--store", file("s.db"))
	if restored != command.OK {
		t.Fatal(errs)
	}
	before := filesIn(t, file(""))
	none := "stopped before anything was mirrored: no store was made at " + file("n.db")
	more := "stopped before anything was mirrored: " + file("s.db") + " holds what it held"
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"sync":      {[]string{"sync", "pods", "--store", file("n.db")}, command.OK, "note: " + none + "\n"},
		"sync more": {[]string{"sync", "nodes", "--store", file("s.db")}, command.OK, "note: " + more + "\n"},
		"quiet":     {[]string{"sync", "pods", "--store", file("n.db"), "--quiet"}, command.OK, ""},
		"save": {
			[]string{"snapshot", "save", file("n.larder"), "pods"}, command.Failed, "error: interrupted: nothing was written\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			code, out, errs := runs(ctx, append(tc.args, hungBody(t, end))...)
			if code != tc.code || out != "" || errs != tc.want {
				t.Errorf("%d %q %q, want %d %q", code, out, errs, tc.code, tc.want)
			}
		})
	}
	if now := filesIn(t, file("")); !slices.Equal(now, before) {
		t.Errorf("%v is there, and before it was %v", now, before)
	}
	t.Run("json", func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		code, _, errs := runs(ctx, "sync", "pods", "--store", file("n.db"), "--log-format", "json", hungBody(t, end))
		want := `"level":"INFO","msg":"` + none + `"}`
		if code != command.OK || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, want) {
			t.Errorf("%d %q, want %q", code, errs, want)
		}
	})
}

// TestErrorsAreReportedOnce checks that a failed write to the output is reported once, although flushing the output at
// the end fails with the same error.
func TestErrorsAreReportedOnce(t *testing.T) {
	server := clitest.StartServer(t)
	dir := t.TempDir()
	host := "--server=" + server.Config().Host
	for _, name := range []string{"a", "b"} {
		for i := range 700 {
			clitest.CreatePod(t, server, name, strings.Repeat("long-name-", 10)+fmt.Sprint(i), nil)
		}
		if code, _, errs := runs(t.Context(), "snapshot", "save", filepath.Join(dir, name+".larder"), "pods",
			host); code != command.OK {
			t.Fatal(errs)
		}
	}
	for _, args := range [][]string{
		{"diff", filepath.Join(dir, "a.larder"), filepath.Join(dir, "b.larder"), "-o", "name"},
		{"snapshot", "export", "-", "--from", filepath.Join(dir, "a.larder")},
		{"check", "--from", filepath.Join(dir, "a.larder")},
	} {
		var errs bytes.Buffer
		if code := Run(t.Context(), args, command.IO{Out: fullDisk{}, Err: &errs}); code == command.OK ||
			strings.Count(errs.String(), "full") != 1 {
			t.Errorf("%s: %d %q", args[0], code, errs.String())
		}
	}
}

// TestResultsThatCanNotBePrinted checks that snapshot save and restore complete their work if their result cannot be
// printed, and then fail.
func TestResultsThatCanNotBePrinted(t *testing.T) {
	host, file := aPod(t)
	for _, args := range [][]string{
		{"snapshot", "save", file("s.larder"), "pods", host},
		{"snapshot", "restore", file("s.larder"), "--store", file("s.db")},
	} {
		var errs bytes.Buffer
		if code := Run(t.Context(), args, command.IO{Out: fullDisk{}, Err: &errs}); code != command.Failed ||
			!strings.Contains(errs.String(), "error: the disk is full\n") {
			t.Errorf("%v: %d %q", args[:2], code, errs.String())
		}
	}
	if left := filesIn(t, file("")); !slices.Contains(left, "s.larder") || !slices.Contains(left, "s.db") {
		t.Errorf("there is %v", left)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

func TestInterruptedLiveSave(t *testing.T) {
	for _, verb := range []string{"discovery", "list"} {
		server := clitest.StartServer(t)
		clitest.CreatePod(t, server, "a", "x", nil)
		server.InjectFault(fakeapi.Fault{Verb: verb, Break: fakeapi.BreakHang})
		dir := t.TempDir()
		ctx, interrupt := context.WithCancel(t.Context())
		go func() {
			for len(server.Requests()) == 0 || verb == "list" &&
				!slices.ContainsFunc(server.Requests(), func(r string) bool { return strings.Contains(r, "/pods") }) {
				time.Sleep(time.Millisecond)
			}
			interrupt()
		}()
		code, out, errs := runs(ctx, "snapshot", "save", filepath.Join(dir, "s.larder"), "pods",
			"--server="+server.Config().Host)
		if code != command.Failed || out != "" || errs != "error: interrupted: nothing was written\n" {
			t.Errorf("%s: %d %q %q", verb, code, out, errs)
		}
		if left := filesIn(t, dir); len(left) > 0 {
			t.Errorf("%s: left behind: %v", verb, left)
		}
	}
}

func TestInterruptedPassphrase(t *testing.T) {
	t.Setenv(input.PassphraseVariable, "")
	dir := t.TempDir()
	sealed := filepath.Join(dir, "sealed.larder")
	recipient, err := age.NewScryptRecipient("right")
	if err != nil {
		t.Fatal(err)
	}
	recipient.SetWorkFactor(10)
	writeSealed(t, sealed, recipient)
	for _, args := range [][]string{
		{"get", "pods", "--from", sealed}, {"check", "--from", sealed}, {"status", "--from", sealed},
		{"snapshot", "restore", sealed, "--store", filepath.Join(dir, "s.db")},
		{"snapshot", "save", filepath.Join(dir, "new.larder"), "--passphrase", "--server=http://127.0.0.1:1"},
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		var out, errs bytes.Buffer
		code := Run(ctx, args, command.IO{Out: &out, Err: &errs, AskSecret: func(string) (string, error) {
			interrupt()
			return "", ctx.Err()
		}})
		if code != command.Failed || out.String() != "" || !strings.HasPrefix(errs.String(), "error: interrupted") ||
			strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%s: %d %q %q", args[0], code, out.String(), errs.String())
		}
	}
	if left := filesIn(t, dir); !slices.Equal(left, []string{"sealed.larder"}) {
		t.Errorf("there is %v", left)
	}
}
