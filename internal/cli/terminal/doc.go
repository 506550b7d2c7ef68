// Package terminal has the output for people: tables with columns like kubectl's, colours, and the escaping of control
// characters in text from files and servers.
//
// Text from a file or a server must go through [Visible] or [OneLine], or be written to a [Writer] or to a writer from
// [NewVisibleWriter]. Only larder's own escape sequences, for the cursor and for colours, bypass them with [Unescaped].
package terminal
