// Command apiserver runs a real kube-apiserver with its etcd on free loopback ports, to try things on, until it gets
// SIGINT or SIGTERM. It builds them where they are missing. The cluster starts empty, has no nodes or controllers, and
// is thrown away at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/larder-dev/larder/test/e2e/controlplane"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "apiserver.kubeconfig", "`file` to make with the credentials of an administrator; it is removed at the end")
	flag.Parse()
	if err := untilSignal(*kubeconfig, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(1)
	}
}

// untilSignal is run until SIGINT or SIGTERM.
func untilSignal(kubeconfig string, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, kubeconfig, out)
}

// run starts both, makes the kubeconfig, and stops and removes everything when ctx ends.
func run(ctx context.Context, kubeconfig string, out io.Writer) (err error) {
	path, err := filepath.Abs(kubeconfig)
	if err != nil {
		return err
	}
	// It is made first, and never in the place of another: that may be the one of a real cluster.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s is there already; remove it, or name another file with --kubeconfig", path)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(path)) }()
	defer f.Close()
	fmt.Fprintln(os.Stderr, "Starting kube-apiserver and etcd (built first where they are missing: minutes, with progress).")
	cp, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		if ctx.Err() != nil {
			return nil // it was told to stop
		}
		return err
	}
	defer func() { err = errors.Join(err, cp.Stop()) }()
	text, err := clientcmd.Write(configFile(cp.Config("")))
	if err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return err
	}
	version, err := cp.Version(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, `kube-apiserver %s is ready at https://%s. In another terminal:

  export KUBECONFIG=%s
  larder sync configmaps --store cluster.db        # or kubectl, or the programs in examples/

Logs, and every request in audit.log: %s
Ctrl-C stops it and removes both.
`, version, cp.Address(), path, cp.Dir())
	<-ctx.Done()
	return nil
}

// configFile is a kubeconfig with what config has.
func configFile(config *rest.Config) clientcmdapi.Config {
	const name = "larder"
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	return *c
}
