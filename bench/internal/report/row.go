package report

import (
	"github.com/larder-dev/larder/bench/internal/scenario"
	"github.com/larder-dev/larder/bench/internal/stat"
)

// Row is one figure, of one residency.
type Row struct {
	// Scenario is what is read; Metric is scenario/key.
	Scenario string `json:"scenario"`
	Metric   string `json:"metric"`
	Kind     string `json:"kind"`
	Dynamic  bool   `json:"dynamic"`
	Unit     string `json:"unit"`
	N        int    `json:"n"`
	// Residency is Larder's.
	Residency string `json:"residency"`
	// Larder, ClientGo and ClientGoList (without WatchList) are medians; null if it was not measured.
	Larder       *float64 `json:"larder"`
	ClientGo     *float64 `json:"clientgo"`
	ClientGoList *float64 `json:"clientgo_list,omitempty"`
	// Against names what Larder is compared with instead of client-go, and Reference is its median.
	Against   string   `json:"against,omitempty"`
	Reference *float64 `json:"reference,omitempty"`
	// Ratio is Larder to what it is compared with.
	Ratio *float64 `json:"ratio"`
	// Goal is empty if there is none, and Met null.
	Goal string `json:"goal"`
	Met  *bool  `json:"met"`
	// Missed says by how much a goal was missed.
	Missed string `json:"missed,omitempty"`
	// Spread has runs, least and most of each side.
	Spread Spread `json:"spread"`
	// Command measures the row again.
	Command string `json:"command"`
}

// Spread is what the medians are of.
type Spread struct {
	Larder       stat.Summary  `json:"larder"`
	ClientGo     *stat.Summary `json:"clientgo,omitempty"`
	ClientGoList *stat.Summary `json:"clientgo_list,omitempty"`
	Reference    *stat.Summary `json:"reference,omitempty"`
}

// Run is the record of one run.
type Run struct {
	// ID is the name of the file.
	ID string `json:"run"`
	// Command that made it, and Machine and Server that it was made on.
	Command string `json:"command"`
	Machine string `json:"machine"`
	Server  string `json:"server"`
	Commit  string `json:"commit"`
	Rows    []Row  `json:"rows"`
}

// unit returns the unit of a row's figures.
func (r Row) unit() scenario.Unit { return scenario.Unit(r.Unit) }
