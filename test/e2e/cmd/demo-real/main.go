// Command demo-real runs "make demo" on kube-apiserver and etcd. The first run builds both programs. They listen on
// free loopback ports.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/larder-dev/larder/test/demo"
	"github.com/larder-dev/larder/test/e2e/controlplane"
)

func main() {
	pods := flag.Int("pods", 5000, "`number` of pods")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *pods); err != nil {
		fmt.Fprintln(os.Stderr, "demo-real:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, pods int) (err error) {
	fmt.Fprintln(os.Stderr,
		"Starting kube-apiserver and etcd (built first where they are missing: minutes, with progress).")
	cp, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cp.Stop()) }()
	version, err := cp.Version(ctx)
	if err != nil {
		return err
	}
	_, err = demo.Run(ctx, cluster{cp, version}, demo.Options{Pods: pods, Out: os.Stdout})
	return err
}

type cluster struct {
	*controlplane.ControlPlane
	version string
}

var _ demo.Cluster = cluster{}

func (c cluster) Label() string { return "kube-apiserver " + c.version }

func (c cluster) Notes() []string {
	return []string{
		"A real kube-apiserver and etcd on loopback; \"stopped\" means that the process was killed.",
		"Requests are counted from the server's audit log, bytes by the clients' dialer.",
	}
}

func (c cluster) Stop(context.Context) error {
	c.StopAPIServer()
	return nil
}

func (c cluster) Start(ctx context.Context) error { return c.StartAPIServer(ctx) }

func (c cluster) Requests(_ context.Context, userAgent string) (demo.Requests, error) {
	var out demo.Requests
	all, err := c.ControlPlane.Requests(userAgent, 0)
	for _, r := range all {
		if r.Resource == "pods" {
			out.Count(r.Verb, r.Query)
		}
	}
	return out, err
}
