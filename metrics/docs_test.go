package metrics

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

const document = "../docs/metrics.md"

type described struct{ name, kind, labels, help string }

var description = regexp.MustCompile(`fqName: "([^"]+)", help: "([^"]*)", unit: "", constLabels: {}, variableLabels: {([^}]*)}`)

func describe(t *testing.T, d *prometheus.Desc, kind string) described {
	t.Helper()
	m := description.FindStringSubmatch(d.String())
	if m == nil {
		t.Fatalf("%s cannot be parsed", d)
	}
	labels := strings.TrimPrefix(m[3], strings.Join(informerLabels, ","))
	return described{m[1], kind, strings.Trim(labels, ","), m[2]}
}

func describeAll(t *testing.T) (all []described) {
	t.Helper()
	for _, m := range table {
		kind := "gauge"
		if m.kind == prometheus.CounterValue {
			kind = "counter"
		}
		all = append(all, describe(t, m.desc, kind))
	}
	c := newCommits()
	for _, of := range []struct {
		prometheus.Collector
		kind string
	}{{newCalls(), "histogram"}, {c.durations, "histogram"}, {c.changes, "histogram"}, {c.failures, "counter"}} {
		ch := make(chan *prometheus.Desc, 1)
		of.Describe(ch)
		all = append(all, describe(t, <-ch, of.kind))
	}
	return append(all, describe(t, storeSize, "gauge"), describe(t, storeFree, "gauge"), describe(t, written, "counter"),
		describe(t, receivedBytes, "counter"))
}

// TestDocument checks that docs/metrics.md lists exactly the metrics of Describe. The flag -update rewrites the list.
func TestDocument(t *testing.T) {
	rows := "| name | type | further labels | |\n|---|---|---|---|\n"
	all := describeAll(t)
	for _, d := range all {
		if !strings.HasPrefix(d.name, "larder_") { // client-go's names have other labels (issue 38)
			t.Errorf("the name of %s does not begin with larder_", d.name)
		}
		rows += fmt.Sprintf("| `%s` | %s | %s | %s |\n", d.name, d.kind, d.labels, d.help)
	}
	ch := make(chan *prometheus.Desc, 100)
	New().Describe(ch)
	if n := len(ch); n != len(all) {
		t.Errorf("%d metrics are described here, and %d by Describe", len(all), n)
	}
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(data), "<!-- The table is made by go test ./metrics -update. -->\n")
	is, after, end := strings.Cut(rest, "<!-- The end of the table. -->\n")
	if !found || !end {
		t.Fatal("docs/metrics.md has no place for the table")
	}
	switch {
	case is == rows:
	case *update:
		text := strings.TrimSuffix(string(data), rest) + rows + "<!-- The end of the table. -->\n" + after
		if err := os.WriteFile(document, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("docs/metrics.md does not have the metrics as they are: go test ./metrics -update")
	}
}
