package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/store"
)

// secrets is the resource that is not stored unless the user asks for it.
var secrets = resource{
	schema.GroupVersionResource{Version: "v1", Resource: "secrets"},
	store.ResourceInfo{Kind: "Secret", Singular: "secret", Namespaced: true},
}

// syncOptions are the flags of sync.
type syncOptions struct {
	store          storeFlag
	cluster        *genericclioptions.ConfigFlags
	namespace      string
	allNamespaces  bool
	labels, fields string
	persistSecrets bool
	maxSize        quantity.QuantityValue
	keepChanges    time.Duration
	verbosity      int
}

func newSync(s IO) *cobra.Command {
	o := syncOptions{cluster: newConfigFlags()}
	cmd := &cobra.Command{
		Use:   "sync RESOURCE… --store FILE",
		Short: "Mirror resources into a store until stopped",
		Long: `Mirror resources of a cluster into a store until stopped: list once, then watch. The next sync resumes the watch
from the store. It starts without the API server too, and goes on when that comes back.

Secrets are kept in memory only, unless --persist-secrets is given. While sync runs, the other commands ask it through
a socket beside the store.

It shows a table on a terminal, and lines elsewhere:

  SOURCE    live: in contact with the server; offline: out of contact, served from the store; waiting: for the first list
  RV        the resourceVersion of the objects, from which a restart resumes
  AGE       how long ago the server was last heard
  RESUMES   watches that went on from the resourceVersion, with no list
  RELISTS   lists of the whole resource but for the first one, and why they were needed
  RECEIVED  bytes from the network for this resource since sync started: compressed as they come, with headers, TLS and the
            small requests that guard a resume. What finds out the resources' names at the start is not in it.`,
		Example: `  larder sync pods deploy widgets.example.com --store cluster.db
  larder sync pods -n web -l app=shop --store shop.db`,
		Args: needArgs(1, -1, "at least one resource"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runSync(cmd.Context(), s, &o, args)
		},
	}
	o.store.add(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "", "mirror this `NAMESPACE` only; default is all")
	f.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "mirror all namespaces, also with -n; the default")
	f.StringVarP(&o.labels, "selector", "l", "", "label `SELECTOR`: mirror what matches only")
	f.StringVar(&o.fields, "field-selector", "", "field `SELECTOR`: mirror what matches only")
	f.BoolVar(&o.persistSecrets, "persist-secrets", false, "store secrets in the file, not encrypted")
	f.Var(&o.maxSize, "max-size", "let the store grow to `SIZE` at most, such as 64Mi; what changes beyond that is kept in memory, and served; a first list that does not fit is not. Default is no limit")
	f.DurationVar(&o.keepChanges, "keep-changes", 0, "keep what changes for `DURATION`, such as 24h, for larder watch --since; default is not to, and frees what an earlier sync has kept")
	f.IntVarP(&o.verbosity, "v", "v", 0, "log `LEVEL`")
	o.cluster.AddFlags(f)
	return cmd
}

func runSync(ctx context.Context, s IO, o *syncOptions, args []string) (err error) {
	if err := o.check(args); err != nil {
		return err
	}
	config, err := clientConfig(o.cluster)
	if err != nil {
		return err
	}
	d, logger := newDisplay(s, o.verbosity)
	ctx = klog.NewContext(ctx, logger)
	m, err := o.openMirror(ctx, config, logger, args)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // it was asked to end, as it is later on, and nothing is wrong
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	o.warnOfSecrets(ctx, s, m)
	closeServer := serve(logger, o.store.path, m)
	defer func() { err = errors.Join(err, closeServer()) }()
	return runMirror(ctx, s, d, m)
}

// check finds what is wrong with the command line before anything is opened.
func (o *syncOptions) check(args []string) error {
	if err := o.store.check(); err != nil {
		return err
	}
	if len(splitArgs(args)) == 0 {
		return usagef("no resource is named")
	}
	id := store.Identity{GroupVersionResource: secrets.GroupVersionResource, LabelSelector: o.labels, FieldSelector: o.fields}
	if _, err := id.Canonical(); err != nil {
		return usageError{errors.Unwrap(err)}
	}
	if o.maxSize.Sign() < 0 {
		return usagef("--max-size %s: it must not be negative", o.maxSize.String())
	}
	if o.keepChanges < 0 {
		return usagef("--keep-changes %s: it must not be negative", o.keepChanges)
	}
	return nil
}

// newDisplay chooses between a live table and lines, and returns the logger that goes with it.
func newDisplay(s IO, verbosity int) (display, logr.Logger) {
	var d display = &plainLog{out: s.Out}
	logs := io.Writer(s.Err)
	if width, _ := s.TerminalSize(); width > 0 && runtime.GOOS != "windows" { // older consoles there know no escape sequences
		d = &screen{out: s.Out, size: s.TerminalSize}
		logs = d
	}
	return d, textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(logs), textlogger.Verbosity(verbosity)))
}

// splitArgs takes "pods,nodes" apart, as kubectl does.
func splitArgs(args []string) []string {
	return strings.FieldsFunc(strings.Join(args, ","), func(r rune) bool { return r == ',' })
}

func (o *syncOptions) identity(r resource) (store.Identity, error) {
	id := store.Identity{
		GroupVersionResource: r.GroupVersionResource, LabelSelector: o.labels, FieldSelector: o.fields,
		Representation: store.Unstructured,
	}
	if r.Namespaced && !o.allNamespaces {
		id.Namespace = o.namespace
	}
	return id.Canonical()
}

// warnOfSecrets says which resources are in memory only, and what is in the file all the same.
func (o *syncOptions) warnOfSecrets(ctx context.Context, s IO, m *mirror) {
	for _, mb := range m.members {
		if mb.informer.Status().Persistent {
			continue
		}
		fmt.Fprintf(s.Err, "%s: kept in memory only, nothing of them is stored; --persist-secrets stores them\n", mb.resource)
		status, err := m.File.Status(ctx)
		if err != nil {
			continue
		}
		for _, c := range status.Collections {
			if c.GVR() == mb.identity.GroupVersionResource {
				fmt.Fprintf(s.Err, "%s: %s still holds %d that an earlier sync has stored; remove the file to be rid of them\n",
					mb.resource, o.store.path, c.Objects)
			}
		}
	}
}

// serve answers the reading commands. A sync that can not is still a sync.
func serve(logger logr.Logger, path string, m *mirror) (stop func() error) {
	l, err := source.Listen(path)
	if err != nil {
		logger.Error(err, "No socket: get, status and check do not work on this store until this sync has stopped", "store", path)
		return func() error { return nil }
	}
	server := source.NewServer(m, source.Sync{PID: os.Getpid(), Version: version(), Started: time.Now().UTC().Truncate(time.Second)})
	server.Start(l)
	return server.Close
}

// runMirror mirrors and shows it until ctx ends.
func runMirror(ctx context.Context, s IO, d display, m *mirror) error {
	showing, stopShowing := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { show(showing, s, d, m.mirrored) })
	wg.Go(func() { m.scrub(showing) })
	err := m.run(ctx)
	stopShowing()
	wg.Wait()
	d.finish(s.Now(), stopped(m.mirrored()))
	return err
}

// stopped is the collections as they are left: neither live nor out of contact.
func stopped(all []source.Collection) []source.Collection {
	for _, c := range all {
		c.Live.Source = "stopped"
	}
	return all
}
