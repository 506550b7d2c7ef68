package e2e

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/larder-dev/larder/test/e2e/controlplane"
)

type step struct {
	line       int
	command    string
	output     []string
	first, end int
	// interrupted is true if the page shows Ctrl-C after the command's output.
	interrupted bool
}

// parsePage returns the commands of a Markdown page. A console block has "$ command", "> continuation", output, and
// "^C" for an interrupt. In a sh block each line that starts with larder is a command. HTML comments are errors,
// because readers do not see them.
func parsePage(text string) ([]step, error) {
	var steps []step
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		if strings.Contains(lines[i], "<!--") {
			return nil, fmt.Errorf("line %d: a comment, which no reader sees", i+1)
		}
		kind, fence := strings.CutPrefix(strings.TrimSpace(lines[i]), "```")
		if !fence {
			continue
		}
		end := i + 1
		for end < len(lines) && strings.TrimSpace(lines[end]) != "```" {
			end++
		}
		if end == len(lines) {
			return nil, fmt.Errorf("line %d: the block does not end", i+1)
		}
		switch kind {
		case "console":
			block, err := terminal(lines, i+1, end)
			if err != nil {
				return nil, err
			}
			steps = append(steps, block...)
		case "sh":
			steps = append(steps, script(lines, i+1, end)...)
		}
		i = end
	}
	return steps, nil
}

func terminal(lines []string, from, to int) ([]step, error) {
	var steps []step
	for i := from; i < to; i++ {
		l := lines[i]
		command, typed := strings.CutPrefix(l, "$ ")
		more, continued := strings.CutPrefix(l, "> ")
		switch {
		case typed:
			steps = append(steps, step{line: i + 1, command: command, first: i + 1, end: i + 1})
			continue
		case len(steps) == 0:
			return nil, fmt.Errorf("line %d: a console block begins with a command: \"$ …\"", i+1)
		}
		s := &steps[len(steps)-1]
		switch {
		case continued && len(s.output) == 0:
			s.command += "\n" + more
			s.first, s.end = i+1, i+1
		case l == "^C":
			s.interrupted = true
		default:
			s.output = append(s.output, l)
			s.end = i + 1
		}
	}
	return steps, nil
}

// syncs matches a command that runs until it is stopped, so that a reader opens another terminal for the next command.
var syncs = regexp.MustCompile(`^larder sync .*--store (\S+)`)

func script(lines []string, from, to int) (steps []step) {
	for i := from; i < to; i++ {
		if !strings.HasPrefix(lines[i], "larder ") {
			continue
		}
		command, _, _ := strings.Cut(lines[i], " #")
		if file := syncs.FindStringSubmatch(command); file != nil {
			command += " >/dev/null 2>&1 &\nuntil [ -s " + file[1] + " ]; do sleep 0.1; done"
		}
		steps = append(steps, step{line: i + 1, command: command, first: i + 1, end: i + 1})
	}
	return steps
}

var loopback = regexp.MustCompile(`\b127\.0\.0\.1:[1-9]\d*`)

// onFreePorts replaces the loopback addresses in the commands of a page by free ones, so that two runs of these tests
// on one machine do not use the same ports. It returns a function that restores the page's addresses in the output.
func onFreePorts(steps []step) (restore func(string) string, err error) {
	free := map[string]string{}
	var back []string
	for i := range steps {
		for _, addr := range loopback.FindAllString(steps[i].command, -1) {
			if free[addr] != "" {
				continue
			}
			l, err := controlplane.Listen()
			if err != nil {
				return nil, err
			}
			free[addr] = l.Addr().String()
			back = append(back, free[addr], addr)
			l.Close()
		}
		steps[i].command = loopback.ReplaceAllStringFunc(steps[i].command, func(addr string) string { return free[addr] })
	}
	return strings.NewReplacer(back...).Replace, nil
}

var varying = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\blarder (\(devel\)|devel-[0-9a-f]+(\+changes)?|v\d[^\s,]*)`), "larder <version>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`\b\d{8}T\d{6}Z-[0-9a-f]{12}\b`), "<name>"},
	{regexp.MustCompile(`signed by [0-9A-F]{16}`), "signed by <key>"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "<uid>"},
	{regexp.MustCompile(`\b[0-9a-f]{20,64}\b`), "<id>"},
	{regexp.MustCompile(`@[0-9a-f]{8}\b`), "@<feed>"},
	{regexp.MustCompile(`age1[0-9a-z]{20,}`), "<recipient>"},
	{regexp.MustCompile(`\b\d+(\.\d+)? m?s\b`), "<t>"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(ns|µs|ms|s|m|h|d))+\b`), "<t>"},
	{regexp.MustCompile(`\b\d[\d,.]*( ?([kKMG]i?)?B)?\b`), "<n>"},
	{regexp.MustCompile(`<n> (list|page|watch|probe|look-up)(e?s)?\b`), "<n> $1"},
	{regexp.MustCompile(`\s+`), " "},
}

func normalize(line string) string {
	line = strings.TrimSpace(line)
	for _, v := range varying {
		line = v.what.ReplaceAllString(line, v.as)
	}
	return line
}

const elided = "…"

// shows compares the output on a page, which may omit lines, with the printed output. It returns a message about the
// first difference, or "".
func shows(page, printed []string) string {
	at := 0
	free := false // true after a line "…": printed lines may be skipped
	for _, want := range page {
		if strings.TrimSpace(want) == elided {
			free = true
			continue
		}
		found := at
		for found < len(printed) && normalize(printed[found]) != normalize(want) {
			found++
		}
		switch {
		case found == len(printed):
			return fmt.Sprintf("not printed: %q", want)
		case found > at && !free:
			return fmt.Sprintf("printed before %q: %q", want, printed[at])
		}
		at, free = found+1, false
	}
	if at < len(printed) && !free && len(page) > 0 {
		return fmt.Sprintf("printed and not shown: %q", printed[at])
	}
	return ""
}

// update replaces the shown output in a page by the printed output. Output with omitted lines is unchanged.
func update(text string, steps []step, printed [][]string) string {
	lines := strings.Split(text, "\n")
	for i := len(steps) - 1; i >= 0; i-- {
		s := steps[i]
		elides := false
		for _, l := range s.output {
			elides = elides || strings.TrimSpace(l) == elided
		}
		if elides {
			continue
		}
		anew := lines[:s.first:s.first]
		for _, l := range printed[i] {
			anew = append(anew, strings.TrimRight(l, " "))
		}
		lines = append(anew, lines[s.end:]...)
	}
	return strings.Join(lines, "\n")
}
