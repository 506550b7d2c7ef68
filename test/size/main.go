package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
)

// Limits for single packages. In the output, a question mark follows a figure above its limit.
const (
	maxPackage       = 4000 // lines
	maxExportedNames = 45
	largestTypes     = 5
)

func main() {
	house := flag.Bool("house", false, "print the picture of the packages, as text for d2")
	lists := flag.Bool("lists", false, "write the files, locks and numbers of the lists in "+architecture)
	flag.Parse()
	if err := run(os.Stdout, *house, *lists); err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, house, lists bool) error {
	root, err := findRoot()
	if err != nil {
		return err
	}
	if lists {
		return completePage(root)
	}
	packages, err := readPackages(root)
	if err != nil {
		return err
	}
	if house {
		_, err := io.WriteString(w, drawHouse(packages))
		return err
	}
	walks, err := readWalks(filepath.Join(root, architecture))
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	printDemands(t, packages, walks)
	printLines(t, packages)
	printTypes(t, packages)
	printNames(t, packages)
	return t.Flush()
}

// completePage writes those columns of the function lists in docs/architecture.md that follow from the code.
func completePage(root string) error {
	path := filepath.Join(root, architecture)
	walks, err := readWalks(path)
	if err != nil {
		return err
	}
	c, err := readCode(root)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(c.complete(string(text), walks)), 0o644)
}

// findRoot returns the repository's root above the working directory.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "test", "size", "doc.go")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("the working directory is not in a clone of Larder")
		}
		dir = parent
	}
}

func printLines(w io.Writer, packages []*goPackage) {
	fmt.Fprint(w, "lines\tlimit\tfiles\t\t\n")
	for _, g := range groups {
		lines, files := 0, 0
		for _, p := range packages {
			if g.has(p) {
				lines, files = lines+p.lines, files+len(p.files)
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t  %s\n", limited(lines, g.limit), limit(g.limit), files, g.name)
	}
	fmt.Fprint(w, "\t\t\t\n")
	for _, p := range packages {
		most := 0
		if p.library() {
			most = maxPackage
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t  %s\n", limited(p.lines, most), limit(most), len(p.files), p.dir)
	}
}

func printTypes(w io.Writer, packages []*goPackage) {
	fmt.Fprintf(w, "\t\t\t\nmethods\tfields\t\t  the %d largest types\n", largestTypes)
	for _, t := range largest(packages, largestTypes) {
		fmt.Fprintf(w, "%d\t%d\t\t  %s\n", t.methods, t.fields, t.name)
	}
}

func printNames(w io.Writer, packages []*goPackage) {
	fmt.Fprintf(w, "\t\t\t\nexported\tmembers\t\t  names that users see (%d)\n", maxExportedNames)
	for _, p := range packages {
		if p.public() {
			fmt.Fprintf(w, "%s\t%d\t\t  %s\n", limited(p.exported, maxExportedNames), p.members, p.dir)
		}
	}
}

func limited(n, limit int) string {
	if limit > 0 && n > limit {
		return strconv.Itoa(n) + " ?"
	}
	return strconv.Itoa(n)
}

func limit(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
