package served

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/larder-dev/larder/bench/internal/cluster"
	"github.com/larder-dev/larder/bench/internal/proc"
	"github.com/larder-dev/larder/bench/internal/scenario"
	"github.com/larder-dev/larder/internal/cli"
	"github.com/larder-dev/larder/internal/cli/command"
)

// LarderArgument is the first argument of the process that is larder: the others are those of the command line.
const LarderArgument = "larder"

// Larder runs the command line, and returns its exit code.
func Larder(ctx context.Context, args []string) int {
	return cli.Run(ctx, args, command.IO{Out: os.Stdout, Err: os.Stderr})
}

const protobuf = "application/vnd.kubernetes.protobuf"

// server is one of the two that are compared.
type server struct {
	name   string
	config *rest.Config
	pid    int
	client *http.Client
}

func newServer(name string, config *rest.Config, pid int) (*server, error) {
	s := &server{name: name, config: config, pid: pid}
	var err error
	s.client, err = s.newClient()
	return s, err
}

// newClient returns a client with a connection of its own, which does not decompress.
func (s *server) newClient() (*http.Client, error) {
	tls, err := rest.TLSConfigFor(s.config)
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: tls, DisableCompression: true, ForceAttemptHTTP2: true},
	}, nil
}

// do asks for a path.
func (s *server) do(ctx context.Context, client *http.Client, path, accept string, gzip bool) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.config.Host+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+s.config.BearerToken)
	request.Header.Set("Accept", accept)
	if gzip {
		request.Header.Set("Accept-Encoding", "gzip")
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s: %s", response.Status, text)
	}
	return response, nil
}

// get returns the size of an answer, which it reads to the end.
func (s *server) get(ctx context.Context, path, accept string, gzip bool) (int64, error) {
	response, err := s.do(ctx, s.client, path, accept, gzip)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(io.Discard, response.Body)
	return n, errors.Join(err, response.Body.Close())
}

// list lists all pods.
func (s *server) list(ctx context.Context, accept string, gzip bool) (size int64, took, cpu time.Duration, err error) {
	before, err := proc.CPU(s.pid)
	if err != nil {
		return 0, 0, 0, err
	}
	start := time.Now()
	size, err = s.get(ctx, "/api/v1/pods", accept, gzip)
	took = time.Since(start)
	after, cpuErr := proc.CPU(s.pid)
	return size, took, after - before, errors.Join(err, cpuErr)
}

// memory returns the resident memory of the server that is not of files, in bytes.
func (s *server) memory() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kB, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kB << 10, err
		}
	}
	return 0, errors.New("/proc/<pid>/status has no RssAnon")
}

// startSync starts larder sync --serve of all pods in a process of its own.
func startSync(ctx context.Context, access cluster.Access, dir string) (_ *server, stop func() error, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	store, ca := filepath.Join(dir, "mirror.db"), filepath.Join(dir, "upstream.ca")
	if err := os.WriteFile(ca, access.CA, 0o600); err != nil {
		return nil, nil, err
	}
	log, err := os.Create(filepath.Join(dir, "sync.log"))
	if err != nil {
		return nil, nil, err
	}
	sync := exec.Command(program, LarderArgument, "sync", "pods", "--store", store, "--server", access.Host,
		"--token", access.Token, "--certificate-authority", ca, "--serve", "127.0.0.1:0")
	sync.Stdout, sync.Stderr = log, log
	if err := sync.Start(); err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- sync.Wait() }()
	stop = func() error {
		_ = sync.Process.Signal(syscall.SIGTERM)
		err := errors.Join(<-ended, log.Close())
		if err != nil {
			text, _ := os.ReadFile(log.Name())
			err = fmt.Errorf("larder sync: %w: %s", err, text)
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if config, err := clientcmd.BuildConfigFromFlags("", store+".kubeconfig"); err == nil {
			s, err := newServer("larder", config, sync.Process.Pid)
			return s, stop, err
		}
		if time.Now().After(deadline) || len(ended) > 0 || ctx.Err() != nil {
			return nil, nil, errors.Join(ctx.Err(), errors.New("larder sync serves nothing"))
		}
	}
}

// synced waits until the mirror has all pods.
func (b *bench) synced(ctx context.Context) error {
	store := filepath.Join(b.Dir, "mirror.db")
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline) && ctx.Err() == nil; {
		if n, synced := scenario.Synced(ctx, store); synced && n == b.Pods {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.Join(ctx.Err(), fmt.Errorf("larder sync has not synced %d pods", b.Pods))
}
