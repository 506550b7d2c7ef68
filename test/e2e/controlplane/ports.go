package controlplane

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports are below the system's range for outgoing connections. Otherwise one of the clients that dial a stopped server
// might take its port. Each process uses ports of one block.
const (
	lowestPort = 20_000
	blockSize  = 400
	blocks     = 30
)

// portBlock is a range of ports that no other process of these tests uses.
type portBlock struct {
	guard net.Listener // listens on the first port of the block until the process ends

	mu   sync.Mutex
	last int // the offset of the last port that Listen has returned; guarded by mu
}

var ownBlock = sync.OnceValues(func() (*portBlock, error) {
	var err error
	for _, n := range rand.Perm(blocks) {
		var guard net.Listener
		if guard, err = listenOn(lowestPort + n*blockSize); err == nil {
			return &portBlock{guard: guard}, nil
		}
	}
	return nil, fmt.Errorf("no free block of test ports: %w", err)
})

// Listen listens on a loopback port. After the listener is closed, other processes of these tests never take the port,
// and later calls return hundreds of other ports first. So a test can stop a server and start it again on its port.
func Listen() (net.Listener, error) {
	b, err := ownBlock()
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for range blockSize - 1 {
		b.last = b.last%(blockSize-1) + 1
		var l net.Listener
		if l, err = listenOn(b.guard.Addr().(*net.TCPAddr).Port + b.last); err == nil {
			return l, nil
		}
	}
	return nil, err
}

func listenOn(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}

// freePorts returns n unused loopback ports.
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
