package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPicturesInTheDark(t *testing.T) {
	pictures, err := filepath.Glob("img/*.svg")
	if err != nil || len(pictures) < 6 {
		t.Fatalf("%q, %v", pictures, err)
	}
	for _, p := range pictures {
		text, err := os.ReadFile(p)
		if err != nil || !strings.Contains(strings.ReplaceAll(string(text), " ", ""), "prefers-color-scheme:dark") {
			t.Errorf("%s has no colours for dark pages: %v", p, err)
		}
	}
}
