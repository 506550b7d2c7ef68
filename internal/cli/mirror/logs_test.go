package mirror

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr"

	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/source"
)

func onTerminal(out, errs *bytes.Buffer, colours bool) command.IO {
	s := clitest.IO(out)
	s.Err = terminal.NewVisibleWriter(errs)
	s.TerminalSize = func() (int, int) { return 80, 24 }
	s.ErrIsTerminal, s.Colours = true, colours
	return s
}

// TestLogOnATerminal checks that the log on a terminal is plain text, without klog's prefixes.
func TestLogOnATerminal(t *testing.T) {
	var out, errs bytes.Buffer
	var libraries logr.Logger
	s := onTerminal(&out, &errs, true)
	s.SetLogger = func(l logr.Logger) { libraries = l }
	l, logger := (&logFlags{format: logText}).log(s)
	logger.Info("Waiting for a process", "store", "s.db")
	l.update(clitest.Now, mirrored(nil))
	libraries.Error(errors.New("no\x1b[2J"), "It went wrong", "resource", "pods")
	l.note("of\x1b[2J a secret")
	text := errs.String()
	for _, want := range []string{"Waiting for a process, store s.db\n", "error: It went wrong, resource pods: no^[[2J\n",
		"note: of^[[2J a secret\n", "pods: live, 3 objects"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
	if strings.Contains(text, ".go:") || out.Len() > 0 {
		t.Errorf("%q, and on standard output %q", text, out.String())
	}
}

func TestLogIsJSON(t *testing.T) {
	var out, errs bytes.Buffer
	s := onTerminal(&out, &errs, true)
	d, logger := (&logFlags{format: logJSON}).log(s)
	logger.Info("Listing", "reason", "Cold")
	logger.V(1).Info("more")
	d.update(clitest.Now, mirrored(func(c *source.Collection) { c.Live.Error = "refused" }))
	var records []map[string]any
	for line := range strings.Lines(errs.String()) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		records = append(records, r)
	}
	if len(records) != 3 || records[0]["msg"] != "Listing" || records[0]["reason"] != "Cold" ||
		records[1]["err"] != "refused" || records[2]["resource"] != "pods" || records[2]["source"] != "live" ||
		records[2]["objects"] != 3.0 {
		t.Errorf("got %v", records)
	}
	if out.Len() > 0 {
		t.Errorf("on standard output: %s", out.String())
	}
}

func TestQuiet(t *testing.T) {
	for _, format := range []string{logText, logJSON} {
		var out, errs bytes.Buffer
		d, logger := (&logFlags{format: format, quiet: true}).log(onTerminal(&out, &errs, true))
		logger.Info("Listing")
		d.update(clitest.Now, mirrored(nil))
		d.note("what is well")
		d.finish(clitest.Now, mirrored(nil))
		if out.Len()+errs.Len() > 0 {
			t.Errorf("%s: %q, %q", format, out.String(), errs.String())
		}
		logger.Error(errors.New("why"), "It went wrong")
		if !strings.Contains(errs.String(), "It went wrong") {
			t.Errorf("%s: %q", format, errs.String())
		}
	}
}
