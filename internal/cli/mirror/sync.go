package mirror

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/cli/serving"
	"github.com/larder-dev/larder/internal/config"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

type syncOptions struct {
	store          command.StoreFlag
	config         string
	cluster        *cluster.Flags
	namespaces     []string
	allNamespaces  bool
	labels, fields string
	persistSecrets bool
	key            input.KeyFlag
	maxSize        command.SizeValue
	keepChanges    command.AgeValue
	schemas        bool
	keepUnnamed    bool
	listen         string
	serving        serving.Flags
	seed           seedFlags
	snapshots      snapshotFlags
	logs           logFlags
	// all mirrors all resources of the server, except those in exclude.
	all     bool
	exclude []string
}

// NewSync returns larder sync.
func NewSync(s command.IO) *cobra.Command {
	o := syncOptions{cluster: cluster.NewFlags()}
	cmd := &cobra.Command{
		Use:   "sync RESOURCE… | sync --all | sync --config FILE",
		Short: "Mirror resources into a store until stopped",
		Long: `Mirror resources of a cluster into a store until stopped: list once, then watch. The next sync
resumes the watch from the store. A sync also starts without the API server, and continues when the server is back.

A RESOURCE has the names that it has in kubectl, or is a category such as all. Secrets are kept in memory only, unless
a key seals them in the store (--key-file), or --persist-secrets is given. While sync runs, the other commands read
through a socket beside the store.

With --config, the resources come from a file, which has more settings: see docs/sync-config.md. Secrets are sealed if
the file has encryption; LARDER_KEY is used only if the file names it. After a change of the file, restart sync: it
resumes each watch, lists only new resources, and drops resources that the file no longer names. SIGHUP ends it like
SIGINT and SIGTERM.

The log, on standard error, has a line for a resource when its state changes, and one summary of all resources a
minute (--log-format json, --quiet). larder status prints a table of the resources.

  live, offline  in contact with the server; served from the store, because the server does not respond
  listed     listed every 30 to 60 seconds, because the server refuses to watch the resource
  connecting, waiting  served from the store until the server responds; waiting for the first list
  forbidden  the server answers 403: retried until it allows list and watch, and served from the store meanwhile
  RV        the resourceVersion of the objects, from which a restart resumes
  age       how long ago the server last confirmed the objects as its present state, or changed them
  resumes   watches that resumed from the resourceVersion, without a list
  relists   lists of the whole resource after the first one, and their reasons
  received  bytes from the network for this resource since sync started: compressed, with headers, TLS and the
            small requests that guard a resume. Discovery and schemas are not counted.`,
		Example: `  larder sync pods deploy widgets.example.com --store cluster.db
  larder sync --all --exclude leases,endpointslices --store cluster.db
  larder sync pods -n web -l app=shop --store shop.db
  larder sync --config /etc/larder/sync.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := o.check(cmd, args)
			if err == nil {
				err = runSync(cmd.Context(), s, &o, args)
			}
			return o.logs.logged(s, err)
		},
		ValidArgsFunction: input.CompleteKnown,
	}
	f := cmd.Flags()
	f.StringVar(&o.store.Path, "store", "", "the store's `FILE` (required: here, in the configuration, or in "+
		command.StoreVariable+")")
	f.BoolVar(&o.all, "all", false,
		"mirror every resource that you may list and watch, except events unless they are named. A forbidden resource is "+
			"mirrored once it is allowed; a resource that the server gets later, from the next start")
	f.StringSliceVar(&o.exclude, "exclude", nil, "with --all, do not mirror this `RESOURCE`; several with commas")
	f.StringVar(&o.config, "config", "", "read the resources and other settings from a `FILE`")
	f.StringSliceVarP(&o.namespaces, "namespace", "n", nil,
		"mirror this `NAMESPACE` only; may be given again. Default is all")
	command.CompleteFlag(cmd, "namespace", cobra.NoFileCompletions)
	f.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "mirror all namespaces, also with -n; the default")
	f.StringVarP(&o.labels, "selector", "l", "", "label `SELECTOR`: mirror matching objects only")
	f.StringVar(&o.fields, "field-selector", "", "field `SELECTOR`: mirror matching objects only")
	f.BoolVar(&o.persistSecrets, "persist-secrets", false, "store secrets in the file, also without keys that seal them")
	o.key.Add(cmd)
	f.Var(&o.maxSize, "max-size",
		"let the store grow to `SIZE` at most, such as 64Mi. Later changes are kept in memory, and served; "+
			"a first list that "+
			"does not fit is not. Default is no limit")
	f.Var(&o.keepChanges, "keep-changes",
		"keep changes for `DURATION`, such as 7d or 24h, for larder watch --since. Default is never, which deletes the "+
			"changes that an earlier sync has kept")
	f.BoolVar(&o.schemas, "schemas", true,
		"store the OpenAPI schemas of mirrored resources, for kubectl explain. They are read after the first lists and when "+
			"they change, about 6 MB for a whole cluster: --schemas=false is for metered links")
	f.BoolVar(&o.keepUnnamed, "keep-unnamed", false,
		"keep stored collections that are no longer mirrored. Otherwise sync drops those that earlier arguments or "+
			"configuration named and the current ones do not, and with --all resources that the server has lacked for a day")
	f.StringVar(&o.listen, "listen", "",
		"serve /healthz, /readyz and /metrics at `HOST:PORT`; without a host, on loopback. With --serve, /metrics is served "+
			"there, to users who may get that path, and here on loopback only. Default is off")
	o.serving.Add(f, "what is mirrored")
	f.BoolVar(&o.serving.Forward, "forward", false,
		"with --serve, send requests for other resources, and writes, to the API server with the caller's own token")
	o.seed.add(f)
	o.snapshots.add(f)
	o.logs.add(cmd)
	o.cluster.AddFlags(f)
	f.Lookup("request-timeout").Usage += " It does not apply to watches."
	return cmd
}

// configRefuses are the flags that cannot be combined with a configuration file, because it has fields for them.
var configRefuses = []string{"namespace", "all-namespaces", "all", "exclude", "selector", "field-selector",
	"persist-secrets", "max-size", "keep-changes", "schemas", "listen", "key-file"}

// check fails for an invalid command line. It runs before any file is opened.
func (o *syncOptions) check(cmd *cobra.Command, args []string) error {
	if err := errors.Join(o.logs.check(), o.serving.Check(), o.serving.CheckUnused(cmd.Flags()),
		o.seed.check(cmd.Flags()), o.snapshots.check(cmd.Flags())); err != nil {
		return err
	}
	if cmd.Flags().Changed("config") {
		return o.checkConfig(cmd, args)
	}
	switch {
	case len(args) == 0 && !o.all:
		return command.Usagef("%s needs at least one resource, --all, or --config FILE; see %[1]s --help", cmd.CommandPath())
	case len(o.exclude) > 0 && !o.all:
		return command.Usagef("--exclude needs --all")
	}
	if err := o.store.Check(); err != nil {
		return err
	}
	if len(input.SplitArgs(args)) == 0 && !o.all {
		return command.Usagef("no resource is named")
	}
	if err := input.OnlyResources(args); err != nil {
		return err
	}
	if err := (&input.SelectFlags{Labels: o.labels, Fields: o.fields}).Check(); err != nil {
		return err
	}
	if slices.Contains(o.namespaces, "") {
		return command.Usagef("--namespace %q has a name that is empty", strings.Join(o.namespaces, ","))
	}
	id := entry.Identity{GroupVersionResource: input.Secrets.GroupVersionResource, LabelSelector: o.labels,
		FieldSelector: o.fields}
	if _, err := id.Canonical(); err != nil {
		return command.Usage(errors.Unwrap(err))
	}
	return nil
}

func (o *syncOptions) checkConfig(cmd *cobra.Command, args []string) error {
	switch {
	case o.config == "":
		return command.Usagef("--config needs a file")
	case len(args) > 0:
		return command.Usagef("either resources or --config, which names them: %q is given too", args[0])
	}
	for _, name := range configRefuses {
		if cmd.Flags().Changed(name) {
			return command.Usagef("--%s and --config exclude each other: the configuration says it", name)
		}
	}
	return nil
}

// settings returns the settings in the configuration file and the configuration, or, without a file, the settings of
// the arguments.
func (o *syncOptions) settings(args []string) (settings, *config.Config, error) {
	if o.config == "" {
		set, err := o.fromArgs(args)
		return set, nil, err
	}
	c, err := config.Load(o.config)
	if err != nil {
		return settings{}, nil, command.Usage(err)
	}
	set, err := o.fromConfig(c)
	if err != nil {
		return set, nil, err
	}
	if set.store = command.OrVariable(set.store); set.store == "" {
		return set, nil, command.Usagef("%s names no store, and neither --store nor %s does", o.config, command.StoreVariable)
	}
	return set, c, nil
}

func runSync(ctx context.Context, s command.IO, o *syncOptions, args []string) (err error) {
	ctx, release := endAtHangup(ctx)
	defer release()
	l, logger := o.logs.log(s)
	ctx = klog.NewContext(ctx, logger)
	set, c, err := o.settings(args)
	if err != nil {
		return err
	}
	seed, err := o.seed.open()
	if err != nil {
		return err
	}
	restConfig, err := cluster.Config(o.connection(c))
	if err != nil {
		return err
	}
	sv := newService(s, l, planner{storePath: set.store, config: restConfig}, set)
	sv.configured, sv.serving, sv.seed, sv.seedCluster = c != nil, o.serving, seed, o.seed.cluster
	sv.keepUnnamed = o.keepUnnamed
	if note := o.seed.unsigned(); note != "" {
		l.note(note)
	}
	if sv.maker, err = o.snapshots.open(restConfig); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sv.close()) }()
	if err := sv.listen(ctx); err != nil {
		return err
	}
	err = sv.open(ctx, logger)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) { // the interruption of a sync is no error
		sv.noteNothingMirrored()
		return nil
	}
	if err != nil {
		return err
	}
	return sv.run(ctx)
}

// endAtHangup makes the context end when the terminal is closed (SIGHUP), as it does at SIGTERM. If SIGHUP is ignored
// (nohup), it stays ignored. A second SIGHUP has no effect, because a shell and the kernel may both send the signal.
func endAtHangup(ctx context.Context) (_ context.Context, release func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, func() {}
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// stopped returns the collections with the state "stopped", for the last lines of the log.
func stopped(all []source.Collection) []source.Collection {
	for _, c := range all {
		c.Live.Source = "stopped"
	}
	return all
}

type settings struct {
	store          string
	wanted         []cluster.Wanted
	persistSecrets bool
	maxSize        int64
	keepChanges    time.Duration
	encryption     *seal.Encryption
	// seals are the resource names under encryption.resources, which must match mirrored resources.
	seals   []toSeal
	keyBy   string // keyBy is the flag or field with which the user names the encryption key, for hints
	listen  string
	ready   config.Ready
	schemas bool
}

func (o *syncOptions) fromArgs(args []string) (settings, error) {
	s := settings{store: o.store.Path, persistSecrets: o.persistSecrets, keepChanges: time.Duration(o.keepChanges),
		maxSize: int64(o.maxSize), ready: config.ReadyDisk, keyBy: input.ByFlag, schemas: o.schemas}
	var err error
	if s.encryption, err = o.key.Encryption(); err != nil {
		return s, err
	}
	names := input.SplitArgs(args)
	if o.all {
		names = append(names, "")
	}
	for _, arg := range names {
		w := cluster.Wanted{Name: arg, Everything: arg == "", But: input.SplitArgs(o.exclude), Labels: o.labels,
			Fields:         o.fields,
			Representation: entry.Unstructured}
		if !o.allNamespaces {
			w.Namespaces = o.namespaces
		}
		s.wanted = append(s.wanted, w)
	}
	if o.listen != "" {
		if s.listen, err = config.Address(o.listen); err != nil {
			return s, command.Usagef("--listen %w", err)
		}
	}
	return s, nil
}

// fromConfig returns the settings in a configuration file. Flags about the store file override them.
func (o *syncOptions) fromConfig(c *config.Config) (settings, error) {
	s := settings{
		store: c.Store, persistSecrets: c.PersistSecrets, maxSize: c.MaxSize, keepChanges: c.Changes,
		listen: c.Listen, ready: c.Ready, keyBy: "encryption.keyFile in " + c.File, schemas: c.Schemas,
	}
	var err error
	if s.encryption, err = sealing(c.Encryption); err != nil {
		return s, command.Usage(command.WithHint(fmt.Errorf("%s: encryption: %w", c.File, err),
			input.MakeKey))
	}
	s.seals = sealsOf(c)
	if o.store.Path != "" {
		s.store = o.store.Path
	}
	for i, r := range c.Resources {
		s.wanted = append(s.wanted, cluster.Wanted{
			Name: r.Name, Namespaces: r.Namespaces, Labels: r.LabelSelector, Fields: r.FieldSelector,
			Representation: r.Representation, Place: fmt.Sprintf("%s: resources[%d]", c.File, i),
		})
	}
	return s, nil
}

// connection returns the connection flags, with the configuration's values for flags that are not given.
func (o *syncOptions) connection(c *config.Config) *cluster.Flags {
	if c == nil {
		return o.cluster
	}
	if o.cluster.Kubeconfig == "" && c.Kubeconfig != "" {
		o.cluster.Kubeconfig = c.Kubeconfig
	}
	if o.cluster.Overrides.CurrentContext == "" && c.Context != "" {
		o.cluster.Overrides.CurrentContext = c.Context
	}
	return o.cluster
}

func (s settings) storeOptions() store.Options {
	return store.Options{MaxSize: s.maxSize, Encryption: s.encryption}
}

// sealing returns the encryption that a configuration sets up; nil without one, even if LARDER_KEY is set.
func sealing(c *config.Encryption) (*seal.Encryption, error) {
	if c == nil {
		return nil, nil
	}
	e := &seal.Encryption{}
	for _, name := range c.Resources {
		e.Resources = append(e.Resources, schema.ParseGroupResource(name))
	}
	keys, err := keysOf(c)
	e.Keys = keys
	return e, err
}

func keysOf(c *config.Encryption) (seal.KeyProvider, error) {
	if c.KeyFile != "" {
		return seal.KeysFromFile(c.KeyFile)
	}
	return seal.KeysFromEnv(c.KeyEnv)
}
