package delivery

// Lines are what is to be logged once no lock is held: a logger is code of the user, and may call the informer.
type Lines []func()

// Add adds a line.
func (l *Lines) Add(line func()) { *l = append(*l, line) }

// Log writes them, and forgets them before.
func (l *Lines) Log() {
	due := *l
	*l = nil
	for _, line := range due {
		line()
	}
}
