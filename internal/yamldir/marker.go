package yamldir

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// Marker is the file that lists the others.
	Marker = ".larder-export"
	// journal lists those that are being written, temporary is what is written now.
	journal   = Marker + ".journal"
	temporary = Marker + ".new"

	markerHead = "# Files that larder snapshot export has written, " +
		"and may replace and remove while they are as it wrote them."
)

var (
	// ErrForeign: a file is in the way that no export has written.
	ErrForeign = errors.New("it is there already, and no export has written it")
	// ErrEdited: a file of an earlier export has been changed by somebody else.
	ErrEdited = errors.New("it was edited after it was exported")
)

// readList reads the lines of a list; there are none if there is no list. Names that lead out of the directory,
// lines without a digest, and half a line at the end are left out. Of a name that is there several times all digests
// count.
func readList(root *os.Root, name string) (map[string]entry, error) {
	all := map[string]entry{}
	f, err := root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if file, e := parseLine(strings.TrimRight(line, "\r\n")); file != "" {
			add(all, file, e)
		}
	}
}

// parseLine returns the file of a line, empty if it has none, and what is said of it.
func parseLine(line string) (string, entry) {
	file, rest, hasSum := strings.Cut(line, " ")
	if !hasSum || !strings.HasSuffix(file, ".yaml") || !filepath.IsLocal(filepath.FromSlash(file)) {
		return "", entry{}
	}
	sums, selection, _ := strings.Cut(rest, " ")
	return file, entry{strings.Split(sums, ","), selection}
}

// line is what parseLine parses.
func line(file string, e entry) string {
	text := file + " " + strings.Join(e.sums, ",")
	if e.selection != "" {
		text += " " + e.selection
	}
	return text + "\n"
}

// listText is what readList reads.
func listText(all map[string]entry) []byte {
	var b strings.Builder
	b.WriteString(markerHead + "\n")
	for _, file := range slices.Sorted(maps.Keys(all)) {
		b.WriteString(line(file, all[file]))
	}
	return []byte(b.String())
}
