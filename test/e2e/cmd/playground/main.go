// Command playground runs kube-apiserver and etcd on free loopback ports until SIGINT or SIGTERM, with a few objects
// for experiments. It builds missing programs. There are no nodes and no controllers. All data are deleted at the end.
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
	"github.com/larder-dev/larder/test/e2e/playground"
)

type options struct {
	kubeconfig string
	// bin is the directory of larder. If bin is empty, larder must be in PATH.
	bin string
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", "playground.kubeconfig",
		"`file` to make with the credentials of an administrator; it is removed at the end")
	flag.StringVar(&o.bin, "bin", "", "`directory` that has larder, for the PATH that is printed")
	flag.Parse()
	if err := untilSignal(o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "playground:", err)
		os.Exit(1)
	}
}

func untilSignal(o options, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, o, out)
}

// run starts and fills the server, writes the kubeconfig, and removes all files when ctx ends.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	path, err := filepath.Abs(o.kubeconfig)
	if err != nil {
		return err
	}
	// The kubeconfig is created first, and never replaces a file, which may belong to a real cluster.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s is there already, of another playground or of one that was killed: "+
			"end that, or remove the file, or name another with --kubeconfig", path)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(path)) }()
	defer f.Close()
	if err = serve(ctx, o, f, out); ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // the end of ctx is the regular end
	}
	return err
}

func serve(ctx context.Context, o options, f *os.File, out io.Writer) (err error) {
	fmt.Fprintln(os.Stderr,
		"Starting kube-apiserver and etcd (built first where they are missing: minutes, with progress).")
	binaries, err := controlplane.Binaries(ctx)
	if err != nil {
		return errors.Join(err, ctx.Err())
	}
	cp, err := controlplane.Start(ctx, controlplane.Options{Args: []string{"--authorization-mode=RBAC"}})
	if err != nil {
		return errors.Join(err, ctx.Err())
	}
	defer func() { err = errors.Join(err, cp.Stop()) }()
	made, err := playground.Fill(ctx, cp.Config(controlplane.Writer))
	if err != nil {
		return errors.Join(err, ctx.Err())
	}
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
	fmt.Fprintf(out, `kube-apiserver %s is ready at https://%s, with %d namespaces, %d deployments, %d pods, %d secrets
and %d kinds of custom resources. There are no nodes and no controllers: nothing changes but what you change.
In another terminal:

  export KUBECONFIG=%s
  export PATH=%s:$PATH

  larder sync deployments pods certificates --store cluster.db        # kubectl is there, too

You are an administrator. To try rights (RBAC), make an account with few of them:

  kubectl create serviceaccount viewer
  kubectl create clusterrole viewer --verb=get,list,watch --resource=pods,deployments
  kubectl create clusterrolebinding viewer --clusterrole=viewer --serviceaccount=default:viewer
  larder sync --all --store viewer.db --token "$(kubectl create token viewer)"

Logs, and every request in audit.log: %s
Ctrl-C stops the server and removes the kubeconfig and the logs.
`, version, cp.Address(), made["Namespace"], made["Deployment"], made["Pod"], made["Secret"],
		made["CustomResourceDefinition"],
		f.Name(), programs(o.bin, binaries), cp.Dir())
	<-ctx.Done()
	return nil
}

func programs(bin, binaries string) string {
	if bin == "" {
		return binaries
	}
	if abs, err := filepath.Abs(bin); err == nil {
		bin = abs
	}
	return bin + string(filepath.ListSeparator) + binaries
}

func configFile(config *rest.Config) clientcmdapi.Config {
	const name = "playground"
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	return *c
}
