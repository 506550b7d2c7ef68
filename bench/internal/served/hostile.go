package served

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/bench/internal/cluster"
	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/proc"
	"github.com/larder-dev/larder/bench/internal/report"
	"github.com/larder-dev/larder/serve/access"
)

const (
	// attackLasts is the duration of an attack after all its connections are open. ownersAsks is the number of requests
	// that the cluster's owner sends during the attack.
	attackLasts = 5 * time.Second
	ownersAsks  = 20
	// attackersAtOnce is the maximum number of connections that are being opened at the same time. connectWithin is the
	// timeout for opening a connection.
	attackersAtOnce = 64
	connectWithin   = 20 * time.Second
	// receiveBuffer is the receive buffer of a client that does not read. It is small, so that the server's writes soon
	// block.
	receiveBuffer = 4 << 10
)

// attack is one kind of attack on an HTTP server, such as clients that do not read.
type attack struct {
	name        string
	connections int
	// begin starts the attack on one open connection. It must return soon; goroutines that it starts end with the
	// connection.
	begin func(s *server, conn net.Conn, number int) error
	// plain is true for an attack by plain HTTP on the given address of the server.
	plain   bool
	address func(s *server) string // returns the attacked address; nil means the API's address
}

// Hostile measures the effect of hostile and slow clients on larder sync --serve, and on the kube-apiserver that it
// mirrors. All connections are on loopback.
func Hostile(ctx context.Context, o Options, out, progress io.Writer) (err error) {
	c, err := cluster.StartReal(ctx, o.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	b := &bench{Options: o, cluster: c, pods: load.KindOf("pods"), out: out}
	fmt.Fprintf(progress, "creating %d pods\n", o.Pods)
	if err := c.Load(ctx, b.pods, o.Pods); err != nil {
		return err
	}
	health, err := freePort()
	if err != nil {
		return err
	}
	mallory, tokens := access.NewToken(), filepath.Join(o.Dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(mallory+",mallory,mallory\n"), 0o600); err != nil {
		return err
	}
	mirror, sync, err := startSync(ctx, c.Access(), o.Dir, "--listen", health, "--token-auth-file", tokens)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sync.Stop()) }()
	b.mirror = mirror
	pid := c.(interface{ APIServerPID() int }).APIServerPID()
	if b.upstream, err = newServer("kube-apiserver", c.Access().Config(), pid); err != nil {
		return err
	}
	if err := b.synced(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d pods (`%s`):\n\n| hostile clients | server | connections that stay open | "+
		"owner's requests answered | owner's median, before and meanwhile | RSS before | most | TokenReviews |\n"+
		"|---|---|---|---|---|---|---|---|\n",
		o.Pods, o.Command)
	for _, a := range attacks(mallory, health) {
		servers := b.servers()
		if a.address != nil {
			servers = servers[1:]
		}
		for _, s := range servers {
			fmt.Fprintf(progress, "%s: %s\n", s.name, a.name)
			if err := b.attack(ctx, a, s); err != nil {
				return fmt.Errorf("%s: %s: %w", s.name, a.name, err)
			}
		}
	}
	return nil
}

func attacks(mallory, health string) []attack {
	write := func(conn net.Conn, text string) error {
		_, err := io.WriteString(conn, text)
		return err
	}
	lists := func(s *server, conn net.Conn, _ int) error {
		token := mallory
		if s.name != "larder" {
			token = s.config.BearerToken
		}
		return write(conn, "GET /api/v1/pods HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+token+"\r\n\r\n")
	}
	return []attack{
		{name: "10,400 requests without credentials, whose body never comes", connections: 10_400,
			begin: func(_ *server, conn net.Conn, _ int) error {
				return write(conn, "GET /page/app.js HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n")
			}},
		{name: "50 lists that are not read, of one user", connections: 50, begin: lists},
		{name: "390 lists that are not read, of one user", connections: 390, begin: lists},
		{name: "400 connections that send random tokens", connections: 400,
			begin: func(_ *server, conn net.Conn, number int) error {
				go sendTokens(conn, number)
				return nil
			}},
		{name: "15,000 keep-alive connections to `--listen`", connections: 15_000, plain: true,
			address: func(*server) string { return health },
			begin: func(_ *server, conn net.Conn, _ int) error {
				return write(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
			}},
	}
}

func sendTokens(conn net.Conn, number int) {
	reader := bufio.NewReader(conn)
	for i := 0; ; i++ {
		_, err := fmt.Fprintf(conn, "GET /api/v1/nodes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+
			"random-%d-%d\r\n\r\n", number, i)
		if err != nil {
			return
		}
		answer, err := http.ReadResponse(reader, nil)
		if err != nil {
			return
		}
		if _, err = io.Copy(io.Discard, answer.Body); err != nil || answer.Close {
			return
		}
	}
}

func (b *bench) attack(ctx context.Context, a attack, s *server) error {
	before, err := proc.Anon(s.pid)
	if err != nil {
		return err
	}
	had, err := connections(s.pid)
	if err != nil {
		return err
	}
	quiet, failed := s.owner(ctx, a)
	if failed > 0 {
		return fmt.Errorf("%d of the owner's requests failed before", failed)
	}
	reviews, err := b.reviews(ctx)
	if err != nil {
		return err
	}
	most := peak(ctx, s.pid)
	conns := s.connect(ctx, a)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	select {
	case <-time.After(attackLasts):
	case <-ctx.Done():
		return ctx.Err()
	}
	meanwhile, failed := s.owner(ctx, a)
	rss := most()
	has, err := connections(s.pid)
	if err != nil {
		return err
	}
	after, err := b.reviews(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "| %s | %s | %d | %d of %d | %.1f ms, %.1f ms | %d MB | %d MB | %d |\n", a.name, s.name,
		max(0, has-had), ownersAsks-failed, ownersAsks, 1e3*quiet, 1e3*meanwhile, before>>20, rss>>20, after-reviews)
	return nil
}

// owner sends requests of the cluster's owner during an attack, as kubectl does, each on a new connection. It returns
// the median of their times in seconds.
func (s *server) owner(ctx context.Context, a attack) (median float64, failed int) {
	var took []float64
	for range ownersAsks {
		start := time.Now()
		if err := s.ask(ctx, a); err != nil {
			failed++
		}
		took = append(took, time.Since(start).Seconds())
	}
	return report.Summarize(took).Median, failed
}

func (s *server) ask(ctx context.Context, a attack) error {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	client, err := s.newClient()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	path, asked := "/api/v1/namespaces/"+load.Namespace(0)+"/pods?limit=500", *s
	if a.address != nil {
		path, asked.config = "/healthz", &rest.Config{Host: "http://" + a.address(s)}
	}
	answer, err := asked.do(ctx, client, path, "application/json", false)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return errors.Join(err, answer.Body.Close())
}

// connect opens the connections of an attack, and returns the accepted ones.
func (s *server) connect(ctx context.Context, a attack) (conns []net.Conn) {
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, attackersAtOnce)
	for number := range a.connections {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			conn, err := s.dial(ctx, a)
			if err != nil {
				return
			}
			if a.begin(s, conn, number) != nil {
				_ = conn.Close()
				return
			}
			mu.Lock()
			defer mu.Unlock()
			conns = append(conns, conn)
		})
	}
	all.Wait()
	return conns
}

func (s *server) dial(ctx context.Context, a attack) (net.Conn, error) {
	ctx, stop := context.WithTimeout(ctx, connectWithin)
	defer stop()
	address := strings.TrimPrefix(s.config.Host, "https://")
	if u, err := url.Parse(s.config.Host); err == nil && u.Host != "" {
		address = u.Host
	}
	if a.address != nil {
		address = a.address(s)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if err := conn.(*net.TCPConn).SetReadBuffer(receiveBuffer); err != nil || a.plain {
		return conn, err
	}
	config, err := rest.TLSConfigFor(s.config)
	if err != nil {
		return nil, err
	}
	config = config.Clone()
	config.NextProtos = []string{"http/1.1"}
	config.ServerName = "127.0.0.1"
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// connections returns the number of open file descriptors of a process, including network connections.
func connections(pid int) (int, error) {
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(all), err
}

// peak samples the memory of a process until stop is called. stop returns the highest value.
func peak(ctx context.Context, pid int) (stop func() int64) {
	ctx, cancel := context.WithCancel(ctx)
	highest := make(chan int64, 1)
	go func() {
		most := int64(0)
		for ctx.Err() == nil {
			if now, err := proc.Anon(pid); err == nil {
				most = max(most, now)
			}
			time.Sleep(20 * time.Millisecond)
		}
		highest <- most
	}()
	return func() int64 {
		cancel()
		return <-highest
	}
}

func (b *bench) reviews(ctx context.Context) (n int, err error) {
	answer, err := b.upstream.do(ctx, b.upstream.client, "/metrics", "text/plain", false)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if line := lines.Text(); strings.HasPrefix(line, "apiserver_request_total{") &&
			strings.Contains(line, `resource="tokenreviews"`) {
			var count float64
			if _, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &count); err != nil {
				return 0, err
			}
			n += int(count)
		}
	}
	return n, lines.Err()
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
