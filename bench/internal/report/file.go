package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Write writes the record of a run into dir, as <run>.json, and returns its name.
func Write(dir string, run Run) (string, error) {
	data, err := json.MarshalIndent(run, "", "  ")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, run.ID+".json")
	return path, os.WriteFile(path, append(data, '\n'), 0o644)
}

// Read reads what Write has written.
func Read(path string) (Run, error) {
	var run Run
	data, err := os.ReadFile(path)
	if err != nil {
		return run, err
	}
	if err := json.Unmarshal(data, &run); err != nil {
		return run, fmt.Errorf("%s is no record of a run: %w", path, err)
	}
	return run, nil
}
