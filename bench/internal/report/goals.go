package report

import (
	"github.com/larder-dev/larder/bench/internal/scenario"
	"github.com/larder-dev/larder/bench/internal/subject"
)

// The residencies that a goal can be for.
const (
	all     = subject.All
	bounded = subject.Bounded
	none    = subject.None
)

// againstFewer is what a row is compared with that is not to grow with the number of objects.
const againstFewer = "Larder with fewer objects"

// GoalsFor is the kind that the goals are for unless they say another, and GoalsN how many there are to be: with fewer, a goal is a hint.
const (
	GoalsFor = "pods"
	GoalsN   = 100_000
)

// Goals are what the project has set itself, in the order of the rows. Those of RssAnon are for the residencies that do not hold all objects: what All
// needs is reported.
var Goals = []Goal{
	{Metric: "restart/bytes", Limit: 1.0 / 5000, Text: "at most 1/5,000"},
	{Metric: "restart/synced_disk", Limit: 1.0 / 50, Text: "at most 1/50"},
	{Metric: "restart/synced_disk", Against: againstFewer, Limit: 1.5, Text: "at most 1.5×"},
	{Metric: "restart/synced_resumed", Value: true, Limit: 2.5, Text: "at most 2.5 s"},
	// It is to hold whatever the number of objects: of the widgets there are ten times as many, and they have no Go type.
	{Metric: "restart/synced_resumed", Kind: "widgets", Dynamic: true, Value: true, Limit: 2.5, Text: "at most 2.5 s"},
	{Metric: "restart/server_cpu", Limit: 1.0 / 50, Text: "at most 1/50"},
	{Metric: "restart-handler/told", Limit: 1.0 / 3, Text: "at most 1/3"},
	{Metric: "restart-handler/told", Dynamic: true, Limit: 1.0 / 10, Text: "at most 1/10"},
	{Metric: "restart-changed/bytes", Limit: 1.0 / 50, Text: "at most 1/50"},

	{Metric: "cold/synced", Limit: 1.0, Text: "at most 1.0"},
	{Metric: "cold/synced", Dynamic: true, Limit: 0.7, Text: "at most 0.7"},
	{Metric: "cold/bytes", Limit: 1.0 / 20, Text: "at most 1/20"},
	{Metric: "cold/rss_anon", Residencies: []string{bounded, none}, Limit: 1.0 / 8, Text: "at most 1/8"},

	{Metric: "relist/bytes", Limit: 1.0 / 20, Text: "at most 1/20"},
	{Metric: "relist/rss_anon", Residencies: []string{bounded, none}, Limit: 1.0 / 8, Text: "at most 1/8"},
	{Metric: "relist/written", Against: "the file's size", Limit: 0.05, Text: "at most 5 %"},

	{Metric: "reads/heap", Residencies: []string{bounded}, Limit: 1.0 / 8, Text: "at most 1/8"},
	{Metric: "reads/heap", Residencies: []string{none}, Limit: 1.0 / 25, Text: "at most 1/25"},
	{Metric: "reads/heap", Dynamic: true, Residencies: []string{none}, Limit: 1.0 / 80, Text: "at most 1/80"},
	{Metric: "reads/hot_1", Residencies: []string{all}, AtLeast: true, Limit: 1.0, Text: "at least 1.0×"},
	{Metric: "reads/hot_8", Residencies: []string{all}, AtLeast: true, Limit: 1.5, Text: "at least 1.5×"},
	{Metric: "reads/hot_8", Residencies: []string{bounded}, AtLeast: true, Limit: 0.8, Text: "at least 0.8×"},
	{Metric: "reads/by_index", Residencies: []string{all}, AtLeast: true, Limit: 1.5, Text: "at least 1.5×"},
	{Metric: "reads/cold", Against: "raw bbolt Get + decode", Residencies: []string{none}, Limit: 1.5, Text: "at most 1.5×"},

	{Metric: "updates-hot/rate", AtLeast: true, Limit: 0.9, Text: "at least 0.9×"},
	{Metric: "updates-hot/rate", Against: "nothing", AtLeast: true, Value: true, Limit: 50_000, Text: "at least 50,000/s"},
	{Metric: "updates-hot/durable", Against: scenario.SecondAndCommit, Limit: 1.0, Text: "at most a second and the commit"},
	{Metric: "updates-spread/durable", Against: scenario.SecondAndCommit, Limit: 1.0, Text: "at most a second and the commit"},
	{Metric: "latency/p50", Limit: 1.2, Text: "at most 1.2×"},
	{Metric: "latency/p99", Limit: 1.5, Text: "at most 1.5×"},
	{Metric: "flash/written", Against: scenario.EachEvent, Residencies: []string{all}, Limit: 1.0 / 5, Text: "at most 1/5"},
	{Metric: "flash/written_seldom", Against: scenario.EachEvent, Residencies: []string{all}, Limit: 1.0 / 20, Text: "at most 1/20"},
}
