// Package reflector lists and watches one resource into a Sink.
package reflector
