package reflector

// The tests' access to unexported parts of this package.

// WithStreams returns o for a reflector that lists by a watch from the beginning, as otherwise after a server has cut
// off the smallest page.
func WithStreams(o Options) Options {
	o.streams = true
	return o
}
