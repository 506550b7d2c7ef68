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

	markerHead = "# Files that larder snapshot export has written, and may replace and remove."
)

// ErrForeign: a file is in the way that no export has written.
var ErrForeign = errors.New("it is there already, and no export has written it")

// readList reads the names in a list; there are none if there is no list. Names that lead out of the directory, and half a line at the end, are left out.
func readList(root *os.Root, name string) (map[string]bool, error) {
	all := map[string]bool{}
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
		line = strings.TrimRight(line, "\r\n")
		if strings.HasSuffix(line, ".yaml") && filepath.IsLocal(filepath.FromSlash(line)) {
			all[line] = true
		}
	}
}

// listText is what readList reads.
func listText(names map[string]bool) []byte {
	lines := append([]string{markerHead}, slices.Sorted(maps.Keys(names))...)
	return []byte(strings.Join(lines, "\n") + "\n")
}
