package config

import (
	"fmt"
	"strings"
)

// Error is one thing that is wrong with a file.
type Error struct {
	File string
	// Line and Column count from 1; 0 if it is no place of the file.
	Line, Column int
	// Path is the field, such as resources[1].labelSelector; empty for the whole.
	Path string
	// Problem says what is wrong and what is allowed.
	Problem string
}

// Error implements error: file:line:column: path: problem.
func (e *Error) Error() string {
	s := e.File
	if e.Line > 0 {
		s += fmt.Sprintf(":%d:%d", e.Line, e.Column)
	}
	if e.Path != "" {
		s += ": " + e.Path
	}
	return s + ": " + e.Problem
}

// Errors is all that is wrong with a file, in its order. It has at least one.
type Errors []*Error

// Error implements error: a line each.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}
