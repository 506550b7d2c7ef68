package serving

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/serve/access/kubeconfig"
)

// NewServe returns larder serve.
func NewServe(s command.IO) *cobra.Command {
	var from input.FromFlag
	var flags Flags
	cmd := &cobra.Command{
		Use:   "serve --from FILE [-- COMMAND…]",
		Short: "Serve a store or snapshot as a Kubernetes API that can be read",
		Long: `Serve a store or a snapshot as a Kubernetes API: kubectl and every other client of Kubernetes read it as if
it were the cluster. There is nothing to watch in it, and nothing can be written.

With a COMMAND it is run with a KUBECONFIG of its own, and larder ends with it and its exit code. Otherwise larder
serves at --serve until it is stopped, and --serve-kubeconfig names the kubeconfig that it writes.

A store that a larder sync holds is served by that: larder sync --serve.`,
		Example: `  larder serve --from cluster.larder -- kubectl get pods -A
  larder serve --from cluster.larder -- kubectl describe pod web-0
  larder serve --from cluster.db --serve 127.0.0.1:6444 --serve-kubeconfig kubeconfig`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() > 0 || cmd.ArgsLenAtDash() < 0 && len(args) > 0 {
				return command.Usagef("%q is no argument of %s; a command to run follows --", args[0], cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(from.Check(), flags.Check()); err != nil {
				return err
			}
			if len(args) == 0 && (flags.Address == "" || flags.Kubeconfig == "" && flags.tokenFile == "" &&
				flags.clientCA == "") {
				return command.Usagef("%s needs a command to run behind --, or --serve HOST:PORT and --serve-kubeconfig FILE",
					cmd.CommandPath())
			}
			return run(cmd.Context(), s, &from, flags, args)
		},
	}
	from.Add(cmd)
	cmd.Flags().Lookup("from").Usage = "the `FILE` to serve: a snapshot, or a store that no larder sync holds " +
		"(required, or " + command.StoreVariable + ")"
	flags.Add(cmd.Flags(), "it")
	return cmd
}

func run(ctx context.Context, s command.IO, from *input.FromFlag, flags Flags, args []string) (err error) {
	src, err := from.Open(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	directory, err := os.MkdirTemp("", "larder-serve-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(directory)) }()
	o := Options{Flags: flags, Directory: filepath.Join(directory, "tls"), Temporary: true}
	if flags.Kubeconfig != "" { // whose copies of the authority stay good over a restart
		o.Directory, o.Temporary = flags.Kubeconfig+".tls", false
	}
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	var served Served
	switch src := src.(type) {
	case *source.Snapshot:
		served = Served{Source: serve.Snapshot(src.File()), Facts: src.File()}
	case *source.File:
		served = Served{Source: serve.Store(src.Store()), Facts: src.Store()}
	default:
		return command.WithHint(fmt.Errorf("%s is held by %s", from.Path, input.Holding(from.Path)),
			"that larder sync serves it, if it is started with --serve; or serve a snapshot of it: larder snapshot save")
	}
	p, err := Listen(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if err := p.Serve(ctx, served); err != nil {
		return err
	}
	if len(args) > 0 {
		return child(ctx, p, args)
	}
	fmt.Fprintf(s.Err, "serving %s at %s\n", from.Path, p.URL)
	<-ctx.Done()
	return nil
}

// child runs a command with a kubeconfig of the port. A signal of the terminal reaches it too: it decides.
func child(ctx context.Context, p *Port, args []string) (err error) {
	d, err := kubeconfig.NewDirectory(p.Config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Remove()) }()
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, os.Interrupt)
	defer signal.Stop(ignored)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdin, os.Stdout, os.Stderr, d.Environ(os.Environ())
	cmd.Cancel = func() error { return nil } // see terminate
	if err := cmd.Start(); err != nil {
		return command.Usage(fmt.Errorf("run %s: %w", args[0], err))
	}
	stop := context.AfterFunc(ctx, func() { terminate(cmd.Process) })
	defer stop()
	var exit *exec.ExitError
	if err = cmd.Wait(); errors.As(err, &exit) {
		return command.Coded(command.ErrSilent, max(exit.ExitCode(), 1))
	}
	return err
}
