package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/source"
)

// onTerminal is an IO whose streams are terminals.
func onTerminal(out, errs *bytes.Buffer, colours bool) IO {
	s := testIO(out)
	s.Err = terminal.NewVisibleWriter(errs)
	s.TerminalSize = func() (int, int) { return 80, 24 }
	s.ErrIsTerminal, s.Colours = true, colours
	return s
}

// TestLogAboveTheTable: what is well is not told beside the table, and what is not in words, with nothing of klog's.
// What is told before there is a table is all that there is to see.
func TestLogAboveTheTable(t *testing.T) {
	var out, errs bytes.Buffer
	var libraries logr.Logger
	s := onTerminal(&out, &errs, true)
	s.SetLogger = func(l logr.Logger) { libraries = l }
	d, logger := (&logFlags{format: logText}).display(s)
	logger.Info("Waiting for a process", "store", "s.db")
	d.update(now, mirrored(nil))
	logger.Info("Listing", "reason", "Cold")
	libraries.V(0).Info("Something of a library")
	libraries.Error(errors.New("no\x1b[2J"), "It went wrong", "resource", "pods")
	d.note("of\x1b[2J a secret")
	d.finish(now, mirrored(nil))
	text := out.String()
	for _, want := range []string{"Waiting for a process, store s.db\n", "error: It went wrong, resource pods: no^[[2J\n",
		"note: of^[[2J a secret\n",
		"\x1b[32mlive\x1b[0m"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
	for _, not := range []string{"Listing", "library", ".go:"} {
		if strings.Contains(text, not) {
			t.Errorf("%q is in %q", not, text)
		}
	}
	if errs.Len() > 0 {
		t.Errorf("beside the terminal: %q", errs.String())
	}
}

// TestLogIsJSON: every line is a record, on standard error, and there is no table.
func TestLogIsJSON(t *testing.T) {
	var out, errs bytes.Buffer
	s := onTerminal(&out, &errs, true)
	d, logger := (&logFlags{format: logJSON}).display(s)
	logger.Info("Listing", "reason", "Cold")
	logger.V(1).Info("more")
	d.update(now, mirrored(func(c *source.Collection) { c.Live.Error = "refused" }))
	var records []map[string]any
	for line := range strings.Lines(errs.String()) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		records = append(records, r)
	}
	if len(records) != 2 || records[0]["msg"] != "Listing" || records[0]["reason"] != "Cold" ||
		records[1]["resource"] != "pods" || records[1]["source"] != "live" || records[1]["objects"] != 3.0 ||
		records[1]["err"] != "refused" {
		t.Errorf("got %v", records)
	}
	if out.Len() > 0 {
		t.Errorf("on standard output: %s", out.String())
	}
}

// TestQuiet: nothing but what goes wrong.
func TestQuiet(t *testing.T) {
	for _, format := range []string{logText, logJSON} {
		var out, errs bytes.Buffer
		d, logger := (&logFlags{format: format, quiet: true}).display(onTerminal(&out, &errs, true))
		logger.Info("Listing")
		d.update(now, mirrored(nil))
		d.note("what is well")
		d.finish(now, mirrored(nil))
		if out.Len()+errs.Len() > 0 {
			t.Errorf("%s: %q, %q", format, out.String(), errs.String())
		}
		logger.Error(errors.New("why"), "It went wrong")
		if !strings.Contains(errs.String(), "It went wrong") {
			t.Errorf("%s: %q", format, errs.String())
		}
	}
}

// TestLiveTableFits: columns are left out before lines are cut, in colour too.
func TestLiveTableFits(t *testing.T) {
	all := mirrored(func(c *source.Collection) { c.ResourceVersion = strings.Repeat("7", 20) })
	escapes := regexp.MustCompile("\x1b\\[[0-9]*m")
	for width, want := range map[int]string{
		100: "RESOURCE SOURCE OBJECTS RV AGE RESUMES RELISTS RECEIVED", 79: "RESOURCE SOURCE OBJECTS RV AGE RESUMES RELISTS",
		70: "RESOURCE SOURCE OBJECTS AGE RESUMES RELISTS", 30: "RESOURCE SOURCE OBJECTS",
	} {
		for _, colours := range []bool{false, true} {
			lines := fit(liveTable(now, all, width, colours), func() (int, int) { return width, 24 })
			if got := strings.Join(strings.Fields(lines[0]), " "); got != want {
				t.Errorf("%d columns: %s", width, got)
			}
			for _, line := range lines {
				if n := utf8.RuneCountInString(escapes.ReplaceAllString(line, "")); n > width {
					t.Errorf("a line of %d in %d columns: %s", n, width, line)
				}
			}
			if got := strings.Contains(lines[1], "\x1b[32mlive\x1b[0m"); got != colours {
				t.Errorf("%d columns, colours %t: %q", width, colours, lines[1])
			}
		}
	}
}

// TestLongNamesInTheLiveTable: they leave room for what counts.
func TestLongNamesInTheLiveTable(t *testing.T) {
	all := mirrored(func(c *source.Collection) {
		c.Group, c.Resource = "admissionregistration.k8s.io", "validatingadmissionpolicybindings"
	})
	lines := fit(liveTable(now, all, 80, false), func() (int, int) { return 80, 24 })
	want := []string{
		"RESOURCE                                   SOURCE   OBJECTS   AGE   RELISTS",
		"validatingadmissionpolicybindings.admis…   live     3         5s    0",
	}
	if d := cmp.Diff(want, lines); d != "" {
		t.Error(d)
	}
}

// TestColours: states are coloured on a terminal, unless NO_COLOR or TERM says otherwise.
func TestColours(t *testing.T) {
	for state, want := range map[string]terminal.Colour{
		"live": terminal.Green, "offline 3m": terminal.Yellow, "waiting": terminal.Yellow, "stored": "", "snapshot": "",
		"live, incomplete": terminal.Red, "stopped": "",
	} {
		if got := colourOfState(state); got != want {
			t.Errorf("%s: %q", state, got)
		}
	}
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if !terminal.WantsColours() {
		t.Error("a terminal is not coloured")
	}
	t.Setenv("NO_COLOR", "1")
	if terminal.WantsColours() {
		t.Error("NO_COLOR is set")
	}
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "dumb")
	if terminal.WantsColours() {
		t.Error("TERM is dumb")
	}
}
