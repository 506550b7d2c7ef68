package e2e

import (
	"net"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/test/e2e/controlplane"
)

type mode int

const (
	passing   mode = iota
	refusing       // the port is closed, and all connections are closed
	resetting      // new and open connections are reset
	hanging        // connections stay open, and no byte is forwarded
	holding        // connections are closed; new connections are accepted and wait, so no request fails
)

// network is a TCP proxy on a loopback port that simulates network failures.
type network struct {
	target string
	addr   string
	wg     sync.WaitGroup

	mu       sync.Mutex // mu guards the fields below
	mode     mode
	listener net.Listener
	links    map[*link]bool
	held     []net.Conn // connections that wait until the network works again
	opened   int        // number of forwarded connections
	received int64      // bytes from the server
}

// link is one proxied connection. After a time in which no byte was forwarded, the connection never works again.
type link struct {
	client, server net.Conn
	dead           chan struct{} // closed when no more bytes may pass
}

func newNetwork(t *testing.T, target string) *network {
	t.Helper()
	n := &network{target: target, links: map[*link]bool{}, mode: refusing}
	if err := n.set(passing); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.set(refusing); err != nil {
			t.Error(err)
		}
		n.wg.Wait()
	})
	return n
}

func (n *network) through(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Host = "https://" + n.addr
	return cfg
}

func (n *network) set(m mode) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mode = m
	for l := range n.links {
		switch m {
		case passing: // a link that hung stays dead, so that its peers must notice
		case hanging:
			l.hang()
		case resetting:
			reset(l.client)
			reset(l.server)
		case refusing, holding:
			l.client.Close()
			l.server.Close()
		}
	}
	held := n.held
	n.held = nil
	for _, conn := range held {
		n.takeLocked(conn)
	}
	if m == refusing {
		if n.listener != nil {
			n.listener.Close()
			n.listener = nil
		}
		return nil
	}
	if n.listener != nil {
		return nil
	}
	l, err := n.listen()
	if err != nil {
		return err
	}
	n.listener, n.addr = l, l.Addr().String()
	n.wg.Go(func() { n.accept(l) })
	return nil
}

func (n *network) listen() (net.Listener, error) {
	if n.addr == "" {
		return controlplane.Listen()
	}
	return net.Listen("tcp", n.addr)
}

func (n *network) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		n.take(conn)
	}
}

func (n *network) take(conn net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.takeLocked(conn)
}

func (n *network) takeLocked(conn net.Conn) {
	switch n.mode {
	case resetting, refusing:
		reset(conn)
		return
	case holding:
		n.held = append(n.held, conn)
		return
	}
	server, err := net.Dial("tcp", n.target)
	if err != nil {
		reset(conn)
		return
	}
	k := &link{client: conn, server: server, dead: make(chan struct{})}
	n.links[k] = true
	n.opened++
	if n.mode == hanging {
		k.hang()
	}
	var ends sync.WaitGroup
	ends.Go(func() { k.copy(server, conn, func(int) {}) })
	ends.Go(func() { k.copy(conn, server, n.count) })
	n.wg.Go(func() {
		ends.Wait()
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.links, k)
	})
}

func (n *network) count(bytes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.received += int64(bytes)
}

func (n *network) counted() (connections int, received int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.opened, n.received
}

// hang makes the link drop all further bytes without closing its connections.
func (k *link) hang() {
	select {
	case <-k.dead:
	default:
		close(k.dead)
	}
}

// copy forwards bytes and counts them until one end is closed. After hang it discards bytes.
func (k *link) copy(to, from net.Conn, count func(int)) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		count(n)
		select {
		case <-k.dead:
			if err != nil {
				return // the other end stays open, as on a real network
			}
			continue
		default:
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				from.Close()
				return
			}
		}
		if err != nil {
			to.Close()
			return
		}
	}
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // an error does not matter before the close
	}
	c.Close()
}
