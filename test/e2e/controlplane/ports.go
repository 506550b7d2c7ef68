package controlplane

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are picked below the range that systems use for outgoing connections: a server that is stopped and started
// again would find its port taken by one of its own clients, which dial it all the time.
const (
	lowestPort  = 20_000
	highestPort = 32_000
	portTries   = 50
)

// Listen listens on a loopback port that nobody is likely to take after the listener is closed.
func Listen() (l net.Listener, err error) {
	for range portTries {
		l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", lowestPort+rand.IntN(highestPort-lowestPort)))
		if err == nil {
			return l, nil
		}
	}
	return nil, err
}

// freePorts returns n loopback ports that nobody listens on. Somebody else may
// take one before it is used; Start then fails and says so.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := Listen()
		if err != nil {
			return nil, err
		}
		defer l.Close() // only at the end, so that all differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
