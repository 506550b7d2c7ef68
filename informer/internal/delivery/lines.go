package delivery

// Lines are log lines that are written once no lock is held: a logger is user code and may call the informer.
type Lines []func()

// Add adds a line.
func (l *Lines) Add(line func()) { *l = append(*l, line) }

// Log empties l and writes the lines.
func (l *Lines) Log() {
	due := *l
	*l = nil
	for _, line := range due {
		line()
	}
}
