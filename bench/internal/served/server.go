package served

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/larder-dev/larder/bench/internal/cluster"
	"github.com/larder-dev/larder/bench/internal/larder"
	"github.com/larder-dev/larder/bench/internal/proc"
)

const protobuf = "application/vnd.kubernetes.protobuf"

// server is one of the two compared servers: kube-apiserver, or larder sync --serve.
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

// newClient returns a client with its own connection that does not decompress answers.
func (s *server) newClient() (*http.Client, error) {
	tls, err := rest.TLSConfigFor(s.config)
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: tls, DisableCompression: true, ForceAttemptHTTP2: true},
	}, nil
}

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

func (s *server) get(ctx context.Context, path, accept string, gzip bool) (int64, error) {
	response, err := s.do(ctx, s.client, path, accept, gzip)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(io.Discard, response.Body)
	return n, errors.Join(err, response.Body.Close())
}

// list lists all pods, and returns the size, the duration and the server's processor time.
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

// startSync starts larder sync --serve of all pods, with additional arguments, and waits until it serves.
func startSync(
	ctx context.Context, access cluster.Access, dir string, more ...string,
) (_ *server, _ *larder.Process, err error) {
	store := filepath.Join(dir, "mirror.db")
	sync, err := larder.StartSync(access, store, append([]string{"pods", "--serve", "127.0.0.1:0"}, more...)...)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, sync.Stop())
		}
	}()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if config, err := clientcmd.BuildConfigFromFlags("", store+".kubeconfig"); err == nil {
			s, err := newServer("larder", config, sync.PID())
			return s, sync, err
		}
		if time.Now().After(deadline) || sync.Ended() || ctx.Err() != nil {
			return nil, nil, errors.Join(ctx.Err(), errors.New("larder sync serves nothing"))
		}
	}
}

func (b *bench) synced(ctx context.Context) error {
	store := filepath.Join(b.Dir, "mirror.db")
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline) && ctx.Err() == nil; {
		if n, synced := larder.Synced(ctx, store); synced && n == b.Pods {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.Join(ctx.Err(), fmt.Errorf("larder sync has not synced %d pods", b.Pods))
}
