// Package progress shows on a terminal how far something has come that takes long.
//
//	p := progress.Start(os.Stderr, isTerminal, "checking", objects)
//	defer p.Done()
//	p.Add(1)
//
// Nothing is written before a second has passed, nor if it is no terminal or a dumb one (TERM=dumb). The line is
// redrawn by Add, ten times a second at most, without colours and escape sequences, and Done erases it: so what is
// written next begins at the line's start. Nobody else may write to the terminal between Start and Done. Add and Done
// may be called concurrently; a nil Bar is fine. There is no goroutine, but for that of Busy, which its end waits for.
package progress
