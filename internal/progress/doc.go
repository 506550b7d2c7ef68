// Package progress shows the progress of long operations on a terminal.
//
//	p := progress.Start(os.Stderr, isTerminal, "checking", objects)
//	defer p.Done()
//	p.Add(1)
//
// Nothing is written during the first second. Nothing is ever written if the output is no terminal, or a dumb terminal
// (TERM=dumb). Add redraws the line, at most ten times a second, without colors or escape sequences. Done erases the
// line, so the next output begins at the start of the line. No other output may be written to the terminal between
// Start and Done. Add and Done are safe for concurrent use, and may be called on a nil Bar. Only Busy starts a
// goroutine, and the end function of Busy waits for that goroutine.
package progress
