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
	// yamlLine matches the line number in the text of a YAML error. An error in the first line has none.
	yamlLine = regexp.MustCompile(`line (\d+): `)
	// countsFromZero matches the errors whose line number counts from 0 instead of 1.
	countsFromZero = regexp.MustCompile(`^did not find expected (<|node content|'-' indicator|key|',' or )`)
	// unknownAnchor matches an error without a line number.
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.+)' referenced`)
	// unreadable matches the errors for bytes that are not text. They have no line number either.
	unreadable = regexp.MustCompile(`control characters|UTF-8|surrogate|Unicode`)
)

// noYAML adds the error for data that is not YAML, with its line.
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
	case found != nil: // it counts from 1
	case anchor != nil:
		e.Line = lineAt(data, bytes.Index(data, []byte("*"+anchor[1])))
	case unreadable.MatchString(text):
		e.Line = lineAt(data, firstUnreadable(data))
	}
	e.Problem = "this is no YAML: " + text
	r.errors = append(r.errors, e)
}

// lineAt returns the line of an offset, from 1.
func lineAt(data []byte, offset int) int { return 1 + bytes.Count(data[:max(0, offset)], []byte("\n")) }

// firstUnreadable returns the offset of the first byte that is not text; 0 if all are.
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
