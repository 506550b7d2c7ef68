package config

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	// yamlLine finds the line in an error of the YAML parser, which has it in its text only, and not for the first line.
	yamlLine = regexp.MustCompile(`line (\d+): `)
	// countsFromZero are the errors whose line it counts from 0; that of the others it counts from 1.
	countsFromZero = regexp.MustCompile(`^did not find expected (<|node content|'-' indicator|key|',' or )`)
	// unknownAnchor is an error that has no line at all.
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.+)' referenced`)
	// unreadable are the errors of what is no text, which have none either.
	unreadable = regexp.MustCompile(`control characters|UTF-8|surrogate|Unicode`)
)

// noYAML notes that the data is no YAML, and in which line that shows.
func (r *reader) noYAML(data []byte, err error) {
	e := &Error{File: r.file, Line: 1, Column: 1}
	text := strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "yaml: ")
	found := yamlLine.FindStringSubmatchIndex(text)
	if found != nil {
		e.Line, _ = strconv.Atoi(text[found[2]:found[3]])
		text = text[:found[0]] + text[found[1]:]
	}
	anchor := unknownAnchor.FindStringSubmatch(text)
	switch {
	case found != nil && countsFromZero.MatchString(text):
		e.Line++
	case found != nil:
	case anchor != nil:
		e.Line = lineAt(data, bytes.Index(data, []byte("*"+anchor[1])))
	case unreadable.MatchString(text):
		e.Line = lineAt(data, firstUnreadable(data))
	}
	e.Problem = "this is no YAML: " + text
	r.errors = append(r.errors, e)
}

// lineAt is the line of an offset, counted from 1.
func lineAt(data []byte, offset int) int { return 1 + bytes.Count(data[:max(0, offset)], []byte("\n")) }

// firstUnreadable is the offset of the first byte that is no text; 0 if there is none.
func firstUnreadable(data []byte) int {
	for i := 0; i < len(data); {
		c, n := utf8.DecodeRune(data[i:])
		if c == utf8.RuneError && n == 1 || unicode.IsControl(c) && !strings.ContainsRune("\t\r\n\u0085", c) {
			return i
		}
		i += n
	}
	return 0
}
