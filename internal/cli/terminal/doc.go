// Package terminal is how the commands write for people: tables with columns as kubectl's, colours, and texts of files
// and servers with what would move a terminal's cursor written out.
//
// Whatever a file or a server says goes through [Visible] or [OneLine], or is written to a [Writer] or to what
// [NewVisibleWriter] returns. Only what is to move the cursor or change the colour is written past them: see
// [Unescaped].
package terminal
