package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
)

// startTimeout limits the start of etcd or the server, even on a busy machine.
const startTimeout = 3 * time.Minute

// Options configure Start. The zero value works.
type Options struct {
	// Dir is for data and logs. Default: a temporary directory that Stop removes.
	Dir  string
	Args []string
	// Env are additional variables (NAME=VALUE) of kube-apiserver and etcd, for example GOGC.
	Env []string
}

// ControlPlane is a running kube-apiserver with its etcd. Only Config, Mark and Requests are safe for concurrent use.
type ControlPlane struct {
	dir     string
	ownsDir bool
	etcd    *etcd
	server  *apiServer
}

// Start builds missing programs, starts them, and returns once the server is ready.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	binaries, err := Binaries(ctx)
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{dir: o.Dir}
	if c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "larder-controlplane-"); err != nil {
			return nil, err
		}
		c.ownsDir = true
	}
	if c.etcd, err = newEtcd(binaries, c.dir, o.Env); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	if c.server, err = newAPIServer(binaries, c.dir, c.etcd.url(), o); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	if err := c.startAll(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// Stop kills both processes, waits for them, and removes a directory made by Start.
func (c *ControlPlane) Stop() error {
	c.stopAll()
	if c.ownsDir {
		return os.RemoveAll(c.dir)
	}
	return nil
}

// Dir returns the directory of data and logs.
func (c *ControlPlane) Dir() string { return c.dir }

// Logs returns the names of the log files.
func (c *ControlPlane) Logs() []string { return []string{c.etcd.log, c.server.log, c.server.audit} }

// Config returns an administrator's client configuration with the given user agent, by which the audit log
// distinguishes clients.
func (c *ControlPlane) Config(userAgent string) *rest.Config { return c.server.config(userAgent) }

// Address returns host:port of the server.
func (c *ControlPlane) Address() string { return fmt.Sprintf("127.0.0.1:%d", c.server.port) }

// APIServerPID returns the process id of the API server, which changes with each start.
func (c *ControlPlane) APIServerPID() int { return c.server.proc.cmd.Process.Pid }

// StopAPIServer kills the API server. etcd continues.
func (c *ControlPlane) StopAPIServer() { c.server.proc.Kill() }

// StartAPIServer starts the API server on its old port, and waits until the server is ready. Its watch history is lost:
// older resourceVersions get 410.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return c.server.start(ctx)
}

// Restart combines StopAPIServer and StartAPIServer.
func (c *ControlPlane) Restart(ctx context.Context) error {
	c.StopAPIServer()
	return c.StartAPIServer(ctx)
}

// Compact drops etcd's history up to now. The API server's watch cache keeps its own history. Only a resource without a
// watch cache (--watch-cache-sizes=resource#0) loses its history at once.
func (c *ControlPlane) Compact(ctx context.Context) error { return c.etcd.compact(ctx) }

// CompactTo drops etcd's history before a resourceVersion.
func (c *ControlPlane) CompactTo(ctx context.Context, resourceVersion int64) error {
	return c.etcd.compactTo(ctx, resourceVersion)
}

// Backup is a copy of etcd's data.
type Backup struct{ dir string }

// Backup copies etcd's data, and stops and restarts etcd and the API server for the copy.
func (c *ControlPlane) Backup(ctx context.Context) (*Backup, error) {
	c.stopAll()
	dir, err := os.MkdirTemp(c.dir, "backup-")
	if err != nil {
		return nil, err
	}
	if err := os.CopyFS(dir, os.DirFS(c.etcd.dir)); err != nil {
		return nil, fmt.Errorf("copying etcd's data: %w", err)
	}
	return &Backup{dir: dir}, c.startAll(ctx)
}

// Restore replaces etcd's data with a backup, and restarts both processes. The cluster goes back in time, including its
// resourceVersions.
func (c *ControlPlane) Restore(ctx context.Context, b *Backup) error {
	c.stopAll()
	if err := os.RemoveAll(c.etcd.dir); err != nil {
		return err
	}
	if err := os.CopyFS(c.etcd.dir, os.DirFS(b.dir)); err != nil {
		return fmt.Errorf("restoring etcd's data: %w", err)
	}
	return c.startAll(ctx)
}

// Reset replaces the cluster with a new, empty one at the same address.
func (c *ControlPlane) Reset(ctx context.Context) error {
	c.stopAll()
	if err := os.RemoveAll(c.etcd.dir); err != nil {
		return err
	}
	return c.startAll(ctx)
}

// Mark returns the current length of the audit log, as an offset for Requests.
func (c *ControlPlane) Mark() (int64, error) {
	fi, err := os.Stat(c.server.audit)
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

// Requests returns the requests with that user agent since the mark, in order. Mark 0 means all requests, and an empty
// user agent all clients.
func (c *ControlPlane) Requests(userAgent string, mark int64) ([]*Request, error) {
	return readAudit(c.server.audit, mark, userAgent)
}

func (c *ControlPlane) startAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := os.MkdirAll(filepath.Dir(c.etcd.dir), 0o700); err != nil {
		return err
	}
	if err := c.etcd.start(ctx); err != nil {
		return err
	}
	return c.server.start(ctx)
}

func (c *ControlPlane) stopAll() {
	if c.server != nil {
		c.server.proc.Kill()
	}
	if c.etcd != nil {
		c.etcd.proc.Kill()
	}
}

// EtcdSnapshot compacts and defragments etcd, writes a snapshot as etcdctl snapshot save does, and returns its size.
func (c *ControlPlane) EtcdSnapshot(ctx context.Context, w io.Writer) (size int64, err error) {
	if err := c.etcd.compact(ctx); err != nil {
		return 0, err
	}
	if err := c.etcd.defragment(ctx); err != nil {
		return 0, err
	}
	return c.etcd.snapshot(ctx, w)
}
