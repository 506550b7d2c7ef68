package clients

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const monitoring = "../../../deploy/monitoring/"

// TestAlerts checks that each alert has a passing unit test and a section of docs/troubleshooting.md, and that the
// queries of the Grafana dashboard parse.
func TestAlerts(t *testing.T) {
	rules, err := os.ReadFile("../../../deploy/chart/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile(monitoring + "alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	symptoms, err := os.ReadFile("../../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	alerts := regexp.MustCompile(`(?m)^  - alert: (\w+)$`).FindAllStringSubmatch(string(rules), -1)
	if len(alerts) < 10 {
		t.Fatalf("there are %d alerts", len(alerts))
	}
	for _, a := range alerts {
		if !regexp.MustCompile(`alertname: ` + a[1] + `\n`).Match(tests) {
			t.Errorf("%s is not tested", a[1])
		}
		if !strings.Contains(string(symptoms), "`"+a[1]+"`") {
			t.Errorf("docs/troubleshooting.md does not have %s", a[1])
		}
	}
	links := regexp.MustCompile(`troubleshooting\.md#([^'\n]+)'`).FindAllStringSubmatch(string(rules), -1)
	if len(links) != len(alerts) {
		t.Errorf("%d of %d alerts lead to a symptom", len(links), len(alerts))
	}
	for _, l := range links {
		if !strings.HasPrefix(l[1], "{{") && !strings.Contains(string(symptoms), fmt.Sprintf("<a id=%q></a>", l[1])) {
			t.Errorf("docs/troubleshooting.md has no section %s", l[1])
		}
	}
	promtool(t, "test", "rules", monitoring+"alerts_test.yaml")
	promtool(t, "check", "rules", queriesOf(t))
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	path := toolOf(t, "prometheus", "promtool")
	if out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", args, err, out)
	}
}

// queriesOf writes the queries of the Grafana dashboard as recording rules for promtool to check, and returns the file.
func queriesOf(t *testing.T) (file string) {
	t.Helper()
	text, err := os.ReadFile(monitoring + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	rules := "groups:\n- name: dashboard\n  rules:\n"
	n := 0
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			n++
			rules += fmt.Sprintf("  - record: query%d\n    expr: %q\n", n, target.Expr)
		}
	}
	if n < 10 {
		t.Fatalf("the dashboard has %d queries", n)
	}
	file = filepath.Join(t.TempDir(), "queries.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
