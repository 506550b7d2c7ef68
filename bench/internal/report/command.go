package report

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Command is how a run was asked for, apart from what it measures. A record keeps its rows' commands as text that can be run, and is read again by that.
type Command struct {
	// Runs is how often each case is run.
	Runs int
	// Quick and Embedded are the flags of these names.
	Quick, Embedded bool
}

// Of returns what measures one scenario again, with n objects of a kind.
func (c Command) Of(scenario, kind string, n int) string {
	numbers := map[string]int{kind: n}
	text := fmt.Sprintf("go -C bench run . -only %s -pods %d -configmaps %d -widgets %d -runs %d",
		scenario, numbers["pods"], numbers["configmaps"], numbers["widgets"], c.Runs)
	if c.Quick {
		text += " -quick"
	}
	if c.Embedded {
		text += " -embedded"
	}
	return text
}

var runsFlag = regexp.MustCompile(` -runs (\d+)`)

// asked is how many runs the command of a row asks for; 0 if it does not say.
func (r Row) asked() int {
	found := runsFlag.FindStringSubmatch(r.Command)
	if found == nil {
		return 0
	}
	// The digits of a number that is too large for an int are no number of runs.
	runs, _ := strconv.Atoi(found[1])
	return runs
}

// withFewer returns the command of a row that measures it with fewer objects, too.
func (r Row) withFewer(fewer int) string {
	return strings.Replace(r.Command, fmt.Sprintf(" -%s %d ", r.Kind, r.N), fmt.Sprintf(" -%s %d,%d ", r.Kind, fewer, r.N), 1)
}
