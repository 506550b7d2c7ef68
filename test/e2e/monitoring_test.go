package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mostSeries limits the metric series of a sync of two resources, so that alerts and dashboards stay cheap for
// thousands of nodes.
const mostSeries = 80

var metricName = regexp.MustCompile(`\b(?:larder|informer)_[a-z_]+`)

// TestMonitoring checks that the alert rules and the dashboard use only metrics that a sync exports. Handler metrics
// are the exception: only programs have them, and docs/metrics.md lists them.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	cmd := newCommand(t, newCluster(t, shared))
	cmd.createConfigMaps(t, names("cm", 0, 3), "v")
	cmd.run("snapshot", "save", "seed.larder", "configmaps", "-n", cmd.ns, "--kubeconfig", "kubeconfig")
	if err := os.Mkdir(cmd.dir+"/made", 0o700); err != nil {
		t.Fatal(err)
	}
	plain := cmd.sync("plain", "--listen", "127.0.0.1:0")
	cmd.live("plain", plain)
	few := scrape(t, cmd, "plain")
	series := 0
	for line := range strings.Lines(few) {
		if strings.HasPrefix(line, "larder_") {
			series++
		}
	}
	if series == 0 || 2*series > mostSeries {
		t.Errorf("one resource and its file have %d series, and two may have %d", series, mostSeries)
	}
	all := cmd.sync("all", "--listen", "127.0.0.1:0", "--seed", "seed.larder", "--snapshot-to", "made/",
		"--snapshot-every", "1s")
	cmd.live("all", all)
	all.eventually(t, "a snapshot is made", func() string {
		_, err := os.Stat(cmd.dir + "/made/latest")
		if err != nil {
			return err.Error()
		}
		return ""
	})
	have := metricName.FindAllString(few+scrape(t, cmd, "all"), -1)
	documented, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"chart/alerts.yaml", "monitoring/dashboard.json"} {
		text, err := os.ReadFile("../../deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".json") && !json.Valid(text) {
			t.Errorf("%s is no JSON", file)
		}
		asked := metricName.FindAllString(string(text), -1)
		slices.Sort(asked)
		if asked = slices.Compact(asked); len(asked) < 10 {
			t.Errorf("%s asks for %q", file, asked)
		}
		for _, name := range asked {
			sometimes := strings.HasPrefix(name, "larder_handler_") || strings.HasPrefix(name, "larder_durable_") ||
				strings.HasPrefix(name, "larder_serve_memory_") || // exported only with --serve
				name == "larder_known_defect" // exported only while something is wrong
			if !slices.Contains(have, name) && !(sometimes && strings.Contains(string(documented), "`"+name+"`")) {
				t.Errorf("%s asks for %s, which there is not", file, name)
			}
		}
	}
	for _, name := range have {
		name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if !strings.Contains(string(documented), "`"+name+"`") {
			t.Errorf("%s is not in docs/metrics.md", name)
		}
	}
}

func scrape(t *testing.T, c *command, store string) string {
	t.Helper()
	var status struct{ Sync struct{ Listen string } }
	if err := json.Unmarshal([]byte(c.run("status", store+".db", "-o", "json")), &status); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + status.Sync.Listen + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written, so an error does not matter
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, err)
	}
	return string(text)
}
