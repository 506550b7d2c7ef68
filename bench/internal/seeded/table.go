package seeded

import (
	"fmt"
	"io"
	"slices"

	"github.com/larder-dev/larder/bench/internal/report"
	"github.com/larder-dev/larder/bench/internal/scenario"
)

type row struct {
	name string
	unit scenario.Unit
	of   func(m measured) float64
}

var rows = []row{
	{"requests for lists, a page each", scenario.Count, func(m measured) float64 { return float64(m.asked.Lists) }},
	{"requests for one object", scenario.Count, func(m measured) float64 { return float64(m.asked.Probes) }},
	{"both, as apiserver_request_total counts LIST", scenario.Count, func(m measured) float64 {
		return float64(m.asked.Total)
	}},
	{"CPU of the API server", scenario.Seconds, func(m measured) float64 { return m.cpu - m.idle }},
	{"with what it takes when idle", scenario.Seconds, func(m measured) float64 { return m.cpu }},
	{"received from the API server, a store", scenario.Bytes, func(m measured) float64 { return middle(m.Received) }},
	{"the most by one store", scenario.Bytes, func(m measured) float64 { return latest(m.Received) }},
	{"received of the seed, a store", scenario.Bytes, func(m measured) float64 { return middle(m.Seed) }},
	{"HasSynced, the median store", scenario.Seconds, func(m measured) float64 { return middle(m.Synced) }},
	{"HasSynced, the last", scenario.Seconds, func(m measured) float64 { return latest(m.Synced) }},
	{"committed, the last", scenario.Seconds, func(m measured) float64 { return latest(m.Committed) }},
	{"CPU of the stores' process", scenario.Seconds, func(m measured) float64 { return m.CPU }},
	{"bytes that it has caused to be written", scenario.Bytes, func(m measured) float64 { return m.Written }},
	{"its peak RssAnon", scenario.Bytes, func(m measured) float64 { return m.Anon }},
}

// writeTable writes the median of each figure for each way of starting, and the ratios between the ways.
func writeTable(out io.Writer, results [][]measured) error {
	text := "| | listed | from a seed | ratio |\n|---|---|---|---|\n"
	for _, r := range rows {
		text += "| " + r.name
		var medians []float64
		for _, runs := range results {
			var values []float64
			for _, m := range runs {
				values = append(values, r.of(m))
			}
			s := report.Summarize(values)
			medians = append(medians, s.Median)
			text += " | " + report.Figure(s.Median, r.unit)
			if s.Runs > 1 {
				text += fmt.Sprintf(" (%s – %s)", report.Figure(s.Min, r.unit), report.Figure(s.Max, r.unit))
			}
		}
		text += " | "
		if medians[0] > 0 && medians[1] > 0 {
			text += report.Ratio(medians[1] / medians[0])
		}
		text += " |\n"
	}
	_, err := io.WriteString(out, text)
	return err
}

func middle(values []float64) float64 { return report.Summarize(values).Median }
func latest(values []float64) float64 { return slices.Max(values) }
