package reflector

// What tests of this package reach of its inside, all of it, each with what needs it.

// WithStreams returns o for a reflector that lists by a watch from the beginning: what it does otherwise where a server
// cuts the smallest page.
func WithStreams(o Options) Options {
	o.streams = true
	return o
}
