package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/internal/demo"
)

const (
	demoPods    = 5000
	demoMinPods = 20
)

func newDemo(s IO) *cobra.Command {
	cluster := newConfigFlags()
	var pods int
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show what a restart costs, with and without Larder",
		Long: `Tell Larder's story from measurements: a cold start, a restart after changes, a start with no API server, and
the list after the server has lost its history; then the same with client-go's own informer.

Without connection flags the API server is embedded in this process. With --kubeconfig (or --context, --server, …) it is
your cluster: the demo makes a namespace of its own there, fills it with pods that no node runs, and removes it.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if pods < demoMinPods {
				return usagef("--pods must be at least %d", demoMinPods)
			}
			return runDemo(cmd.Context(), s, demo.Options{Pods: pods, Out: s.Out}, remoteFlags(cmd, cluster))
		},
	}
	cmd.Flags().IntVar(&pods, "pods", demoPods, "`NUMBER` of pods")
	cluster.AddFlags(cmd.Flags())
	return cmd
}

// remoteFlags returns the connection flags if the user has set one, or nil. KUBECONFIG alone does not
// count: nobody should find the demo in a cluster that they did not name.
func remoteFlags(cmd *cobra.Command, cluster *clusterFlags) *clusterFlags {
	connection := pflag.NewFlagSet("", pflag.ContinueOnError)
	newConfigFlags().AddFlags(connection)
	named := false
	connection.VisitAll(func(f *pflag.Flag) { named = named || cmd.Flags().Changed(f.Name) })
	if named {
		return cluster
	}
	return nil
}

// runDemo runs the demo on the embedded server, or on the cluster of the flags.
func runDemo(ctx context.Context, s IO, o demo.Options, flags *clusterFlags) error {
	if flags != nil {
		config, err := clientConfig(flags)
		if err != nil {
			return err
		}
		if err := reachable(ctx, config); err != nil {
			return interrupted(ctx, err)
		}
		_, err = demo.Run(ctx, demo.NewRemote(config), o)
		return interrupted(ctx, err)
	}
	embedded, err := demo.StartEmbedded()
	if err != nil {
		return err
	}
	defer embedded.Close()
	_, err = demo.Run(ctx, embedded, o)
	return interrupted(ctx, err)
}

// reachable asks the server what it is, before the demo begins to tell.
func reachable(ctx context.Context, config *rest.Config) error {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	_, err = client.ServerVersionWithContext(ctx)
	var status apierrors.APIStatus
	if err == nil || errors.As(err, &status) && !apierrors.IsUnauthorized(err) { // it is there; what it allows shows
		return nil
	}
	return serverError(err, "")
}

// interrupted says first that what broke did so because of a signal.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("interrupted: %w", err)
	}
	return err
}
