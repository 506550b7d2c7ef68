package fakeapi

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

// Ports are below the range that operating systems use for outgoing connections. So while the server is stopped, its
// port is unlikely to be taken.
const (
	lowestPort  = 20_000
	highestPort = 32_000
	portTries   = 50

	againTries = 300
	againPause = 100 * time.Millisecond
)

// Start listens on a loopback port, after Stop on the previous port, and returns when requests are served.
func (s *Server) Start() error {
	if s.http != nil {
		return errors.New("the embedded API server runs already")
	}
	listener, err := s.listen()
	if err != nil {
		return fmt.Errorf("the embedded API server cannot listen: %w", err)
	}
	s.conns = newConnections()
	s.stopping = make(chan struct{})
	s.http = &http.Server{
		Handler:           s.handler(s.stopping, s.conns),
		ReadHeaderTimeout: time.Minute,
		ConnState:         s.conns.track,
		ConnContext:       withConn,
	}
	server := s.http
	s.serving.Go(func() { _ = server.Serve(countedListener{listener}) })
	return nil
}

func (s *Server) listen() (*net.TCPListener, error) {
	if s.port != 0 {
		return listenAgain(s.port)
	}
	for range portTries {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		if listener, err := listenOn(port); err == nil {
			s.port = port
			return listener, nil
		}
	}
	listener, err := listenOn(0)
	if err == nil {
		s.port = listener.Addr().(*net.TCPAddr).Port
	}
	return listener, err
}

// listenAgain listens on the port that the server had before Stop, and retries if another process has taken that port:
// most likely another embedded server has taken it, which runs only briefly.
func listenAgain(port int) (listener *net.TCPListener, err error) {
	for range againTries {
		if listener, err = listenOn(port); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
		time.Sleep(againPause)
	}
	return listener, err
}

func listenOn(port int) (*net.TCPListener, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	return listener.(*net.TCPListener), nil
}

// Stop closes the listener and every connection, and waits for all goroutines. The objects are kept.
func (s *Server) Stop() {
	if s.http == nil {
		return
	}
	close(s.stopping)
	_ = s.http.Close()
	s.serving.Wait()
	s.conns.wg.Wait()
	s.http = nil
}

// Restart stops the server, drops the watch history (older resourceVersions get 410), and starts it again.
func (s *Server) Restart() error {
	s.Stop()
	s.Compact()
	return s.Start()
}

// Config returns a rest.Config for the server, without client-side throttling. Call it after the first Start.
func (s *Server) Config() *rest.Config {
	return &rest.Config{Host: fmt.Sprintf("http://127.0.0.1:%d", s.port), QPS: -1}
}
