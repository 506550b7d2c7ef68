package delivery

// Lines are log lines that must be written without holding a lock: a logger is user code and may call the informer.
type Lines []func()

func (l *Lines) Add(line func()) { *l = append(*l, line) }

func (l *Lines) Log() {
	due := *l
	*l = nil
	for _, line := range due {
		line()
	}
}
