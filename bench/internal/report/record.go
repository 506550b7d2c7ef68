package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-dev/larder/bench/internal/scenario"
	"github.com/larder-dev/larder/bench/internal/subject"
)

// Sample is the result of one run of a benchmark case.
type Sample struct {
	Scenario, Kind string
	N              int
	Subject        subject.Spec
	Result         scenario.Result
}

// Record has the measurements of a benchmark.
type Record struct {
	// ID is the name of the result file, without .json.
	ID string `json:"run"`
	// Command is the command line that made the results. Machine and Server are its environment.
	Command string `json:"command"`
	Machine string `json:"machine"`
	Server  string `json:"server"`
	Commit  string `json:"commit"`
	Cases   []Case `json:"cases"`
}

// Case summarizes all runs of one subject (informer and residency) with one scenario, kind and number of objects.
// Figures of other sync policies and commit intervals have separate keys in Figures.
type Case struct {
	Place
	Library string `json:"library"`
	// Residency is Larder's residency; empty for client-go and bbolt.
	Residency string `json:"residency,omitempty"`
	Asked
	Figures map[string]Summary `json:"figures"`
}

// Place is a scenario with a kind and number of objects. Subjects measured in the same Place are compared.
type Place struct {
	Scenario string `json:"scenario"`
	Kind     string `json:"kind"`
	N        int    `json:"n"`
	Dynamic  bool   `json:"dynamic,omitempty"`
}

// Asked has the flags and the source commit with which a case was measured.
type Asked struct {
	Runs int `json:"runs"`
	// Flags are the flags of the command other than numbers of objects and runs, such as -quick.
	Flags string `json:"flags,omitempty"`
	// Commit is the output of git describe for the measured source.
	Commit string `json:"commit,omitempty"`
}

// Command returns the command that measures a scenario again, with these numbers of objects of a kind.
func (a Asked) Command(name, kind string, numbers ...int) string {
	counts := map[string]string{"pods": "0", "configmaps": "0", "widgets": "0"}
	counts[kind] = strings.ReplaceAll(strings.Trim(fmt.Sprint(numbers), "[]"), " ", ",")
	return strings.TrimSpace(fmt.Sprintf("go -C bench run . -only %s -pods %s -configmaps %s -widgets %s -runs %d %s",
		name, counts["pods"], counts["configmaps"], counts["widgets"], a.Runs, a.Flags))
}

// Cases summarizes the samples of a benchmark run, in the order of the samples.
func Cases(samples []Sample, asked Asked) []Case {
	var cases []Case
	for _, s := range samples {
		c := caseOf(s)
		if slices.ContainsFunc(cases, c.same) {
			continue
		}
		values := map[string][]float64{}
		for _, other := range samples {
			if c.same(caseOf(other)) {
				for key, value := range other.Result {
					values[key] = append(values[key], value)
				}
			}
		}
		c.Asked, c.Figures = asked, map[string]Summary{}
		for key := range values {
			c.Figures[key] = Summarize(values[key])
		}
		cases = append(cases, c)
	}
	return cases
}

func caseOf(s Sample) Case {
	return Case{
		Place:   Place{Scenario: s.Scenario, Kind: s.Kind, N: s.N, Dynamic: s.Subject.Dynamic},
		Library: s.Subject.Library, Residency: s.Subject.Residency,
	}
}

// same reports whether the cases measure the same subject with the same scenario, kind and number of objects.
func (c Case) same(other Case) bool {
	return c.Place == other.Place && c.Library == other.Library && c.Residency == other.Residency
}

// Merge returns r with the cases of newer. A newer case replaces an older one with the same scenario, kind and number
// of objects.
func (r Record) Merge(newer Record) Record {
	again := func(c Case) bool {
		return slices.ContainsFunc(newer.Cases, func(n Case) bool {
			return n.Scenario == c.Scenario && n.Kind == c.Kind && n.N == c.N
		})
	}
	r.Cases = append(slices.DeleteFunc(slices.Clone(r.Cases), again), newer.Cases...)
	r.Command = both(r.Command, newer.Command, "; ")
	r.Server = both(r.Server, newer.Server, ", ")
	r.Commit = both(r.Commit, newer.Commit, ", ")
	return r
}

func both(a, b, sep string) string {
	if slices.Contains(strings.Split(a, sep), b) {
		return a
	}
	return a + sep + b
}

// Write writes the results into dir, as <run>.json, and returns the file's name.
func (r Record) Write(dir string) (string, error) {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, r.ID+".json")
	return path, os.WriteFile(path, append(data, '\n'), 0o644)
}

// WriteText writes the tables of Text into dir, as <run>.txt.
func (r Record) WriteText(dir string) error {
	var out bytes.Buffer
	if err := Text(&out, r); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, r.ID+".txt"), out.Bytes(), 0o644)
}

// Read reads a record written by Write.
func Read(path string) (Record, error) {
	var r Record
	data, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("%s is no record of a run: %w", path, err)
	}
	return r, nil
}
