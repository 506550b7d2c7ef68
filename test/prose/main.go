package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
)

// Bounds of the count: the rate of all prose together, the rate of one package or document of more than smallPart
// words, and the number of phrases in a smaller one.
const (
	maxRate     = 1.0 // phrases in 1,000 words
	maxPartRate = 1.5
	smallPart   = 1000 // words
	maxHits     = 1
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	parts, err := count(root)
	if err == nil {
		err = report(os.Stdout, parts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

// report prints each part with a hit and the part's lines, worst first, and the rate of all parts.
func report(w io.Writer, parts []*part) error {
	worst := slices.Clone(parts)
	slices.SortStableFunc(worst, func(a, b *part) int { return cmp.Compare(len(b.hits), len(a.hits)) })
	for _, p := range worst {
		if len(p.hits) == 0 {
			break
		}
		if _, err := fmt.Fprintf(w, "%5.1f  %4d in %6d words  %s\n", p.rate(), len(p.hits), p.words, p.name); err != nil {
			return err
		}
		for _, h := range p.hits {
			if _, err := fmt.Fprintf(w, "\t%s\n", h); err != nil {
				return err
			}
		}
	}
	whole := sum(parts)
	_, err := fmt.Fprintf(w, "%.1f in 1,000 words (%d in %d)\n", whole.rate(), len(whole.hits), whole.words)
	return err
}

func (h hit) String() string { return fmt.Sprintf("%s:%d: %q: %s", h.file, h.line, h.phrase, h.text) }

func sum(parts []*part) *part {
	whole := &part{name: "all"}
	for _, p := range parts {
		whole.words += p.words
		whole.hits = append(whole.hits, p.hits...)
	}
	return whole
}
