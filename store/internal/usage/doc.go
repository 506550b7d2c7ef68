// Package usage records when each collection of a store was last used: those that nobody uses are dropped.
package usage
