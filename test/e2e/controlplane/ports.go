package controlplane

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are below the system's range for outgoing connections. Otherwise a client that dials a stopped server might
// take the server's port.
const (
	lowestPort  = 20_000
	highestPort = 32_000
	portTries   = 50
)

// Listen listens on a loopback port that other processes are unlikely to take after the listener is closed.
func Listen() (l net.Listener, err error) {
	for range portTries {
		l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", lowestPort+rand.IntN(highestPort-lowestPort)))
		if err == nil {
			return l, nil
		}
	}
	return nil, err
}

// freePorts returns n unused loopback ports. If another process takes one meanwhile, Start fails with an error.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := Listen()
		if err != nil {
			return nil, err
		}
		defer l.Close() // closed only at the end, so that all ports differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
