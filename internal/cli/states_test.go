package cli

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/larder-dev/larder/internal/cli/clitest"
)

// TestStatesAreExplained checks that each state of a mirror that needs an operator has a metric, an alert on that
// metric, a section of docs/troubleshooting.md with the alert and the page's text, and an entry in larder status --help
// (issue 37). TestPageStates checks the page.
func TestStatesAreExplained(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	metrics, rules, doc := read("docs/metrics.md"), read("deploy/chart/alerts.yaml"), read("docs/troubleshooting.md")
	var help bytes.Buffer
	if code := Run(t.Context(), []string{"status", "--help"}, clitest.IO(&help)); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	for _, state := range []struct{ metric, label, alert, section, help string }{
		{"larder_known_defect", "listOnly", "LarderListOnly", "listonly", "listed, cannot be watched"},
		{"larder_known_defect", "mustRelist", "LarderMustRelist", "mustrelist", "must relist"},
		{"larder_known_defect", "leftOut", "LarderSkippedObjects", "leftout", "left out"},
		{"larder_degraded", "Forbidden", "LarderForbidden", "forbidden", "forbidden"},
		{"larder_degraded", "Replaced", "LarderStoreTrouble", "replaced", "(replaced)"},
		{"larder_degraded", "NoSpace", "LarderStoreTrouble", "nospace", "behind"},
		{"larder_last_contact_timestamp_seconds", "", "LarderStale", "connection", "offline"},
		{"larder_serve_memory_refused_total", "", "LarderServeMemorySpent", "servememory", "The line Serve"},
	} {
		if !strings.Contains(metrics, "| `"+state.metric+"` |") || !strings.Contains(metrics, "`"+state.label) {
			t.Errorf("docs/metrics.md lacks %s %s", state.metric, state.label)
		}
		alert := regexp.MustCompile(`(?m)^  - alert: ` + state.alert + `\n    expr: (.*)$`).FindStringSubmatch(rules)
		if alert == nil || !strings.Contains(alert[1], state.metric) || !strings.Contains(alert[1], state.label) {
			t.Errorf("the alert %s is not on %s %s: %q", state.alert, state.metric, state.label, alert)
		}
		_, section, _ := strings.Cut(doc, `<a id="`+state.section+`"></a>`)
		section, _, _ = strings.Cut(section, "\n<a id=")
		for _, want := range []string{state.alert, "page"} {
			if !strings.Contains(section, want) {
				t.Errorf("the section %s of docs/troubleshooting.md lacks %q", state.section, want)
			}
		}
		if !strings.Contains(doc, "](#"+state.section+")") {
			t.Errorf("the table of docs/troubleshooting.md does not lead to %s", state.section)
		}
		if !strings.Contains(help.String(), state.help) {
			t.Errorf("larder status --help lacks %q", state.help)
		}
	}
}
