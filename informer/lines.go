package informer

// lines are what is to be logged once no lock is held: a logger is code of the user, and may call the informer.
type lines []func()

func (l *lines) add(line func()) { *l = append(*l, line) }

// log writes them, and forgets them before.
func (l *lines) log() {
	due := *l
	*l = nil
	for _, line := range due {
		line()
	}
}
