// Package fifo is the ordered, bounded queue of deltas between reflector and informer.
package fifo
