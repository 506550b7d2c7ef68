package serving

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/config"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/serve/access"
	"github.com/larder-dev/larder/serve/access/kubeconfig"
)

type serveOptions struct {
	from    input.FromFlag
	flags   Flags
	compare string
	keys    []string // keys are the public keys given with --signed-by
}

// NewServe returns larder serve.
func NewServe(s command.IO) *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve --from FILE [-- COMMAND…]",
		Short: "Serve a store or snapshot as a read-only Kubernetes API",
		Long: `Serve a store or a snapshot as a read-only Kubernetes API: kubectl and other clients of Kubernetes
read it like a cluster. Its objects never change.

With a COMMAND, larder runs it with a KUBECONFIG of its own, and exits when it does, with its exit code. Otherwise
larder serves at --serve, or at a free port of loopback, until it is stopped, and prints the address of a page for
people, to open in a browser. --serve-kubeconfig writes a kubeconfig for other clients.

A store that a larder sync holds is served by that sync: larder sync --serve.`,
		Example: `  larder serve --from cluster.larder -- kubectl get pods -A
  larder serve --from cluster.larder -- kubectl describe pod web-0
  larder serve --from tuesday.larder --compare monday.larder
  larder serve --from cluster.db --serve 127.0.0.1:6444 --serve-kubeconfig kubeconfig`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() > 0 || cmd.ArgsLenAtDash() < 0 && len(args) > 0 {
				err := command.Usagef("%q is no argument of %s; a command to run follows --", args[0], cmd.CommandPath())
				if !input.Missing(args[0]) {
					return command.WithHint(err, "a file is named by --from %s", args[0])
				}
				return err
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(o.from.Check(), o.flags.Check()); err != nil {
				return err
			}
			return run(cmd.Context(), s, &o, args)
		},
	}
	o.from.Add(cmd)
	cmd.Flags().Lookup("from").Usage = "the `FILE` to serve: a snapshot, or a store that no larder sync holds " +
		"(required, or " + command.StoreVariable + ")"
	o.flags.Add(cmd.Flags(), "it")
	cmd.Flags().StringArrayVar(&o.keys, "signed-by", nil,
		"refuse a snapshot that is not signed by this public `KEY` of minisign, or by the one in the file KEY; may be given "+
			"again. Tokens of service accounts are then verified with the keys in the snapshot")
	cmd.Flags().StringVar(&o.compare, "compare", "",
		"an older `FILE` that the page compares with the served one: a snapshot, or a store that no larder sync holds")
	return cmd
}

func run(ctx context.Context, s command.IO, so *serveOptions, args []string) (err error) {
	from := &so.from
	if from.SignedBy, err = input.PublicKeys("signed-by", so.keys); err != nil {
		return err
	}
	src, err := from.Open(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	if _, is := src.(*source.Snapshot); !is && len(so.keys) > 0 {
		return command.Usagef("--signed-by is for snapshots, and %s is a store", from.Path)
	}
	directory, err := os.MkdirTemp("", "larder-serve-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(directory)) }()
	o := Options{Flags: so.flags, Directory: filepath.Join(directory, "tls"), Temporary: true}
	if o.Kubeconfig != "" {
		// The certificate authority is kept beside the kubeconfig, so that clients that copied its certificate still trust
		// the port after a restart.
		o.Directory, o.Temporary = o.Kubeconfig+".tls", false
	}
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	served, err := servedOf(ctx, src, from.Path)
	if err != nil {
		return err
	}
	if so.compare != "" {
		var closeA func() error
		if served.Compared, closeA, err = so.compared(ctx, s, src); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeA()) }()
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
	fmt.Fprintf(s.Err, "serving %s at %s\n%s\n", from.Path, p.URL, p.pageLine(s.ErrIsTerminal))
	<-ctx.Done()
	return nil
}

// pageLine returns the line with the URL of the web page. The URL contains the token only on a terminal, because every
// reader of a log would be signed in.
func (p *Port) pageLine(terminal bool) string {
	f := p.o.Flags
	switch {
	case terminal:
		return "page: " + p.PageWithToken()
	case f.Kubeconfig != "":
		return "page: " + p.Page() + ", which takes the token in " + f.Kubeconfig
	case f.tokenFile == "" && f.clientCA == "":
		return "page: " + p.Page() + ", which nobody can open: --serve-kubeconfig FILE writes a token that it takes"
	}
	return "page: " + p.Page()
}

// servedOf returns the content of an open file in the form that a Port serves. Keys of service accounts in a snapshot
// are used only if the snapshot's signature was verified: otherwise the snapshot's author could sign tokens with them.
func servedOf(ctx context.Context, src source.Source, path string) (Served, error) {
	switch src := src.(type) {
	case *source.Snapshot:
		served := Served{Source: serve.Snapshot(src.File()), Status: src.Status}
		if src.Verified() {
			served.Facts = src.File()
		}
		return served, nil
	case *source.File:
		log, err := logOf(ctx, src)
		return Served{Source: serve.Store(src.Store()), Facts: src.Store(), Status: src.Status, Log: log}, err
	}
	return Served{}, command.WithHint(fmt.Errorf("%s is held by %s", path, input.Holding(path)),
		"that larder sync serves it, if it is started with --serve; or serve a snapshot of it: larder snapshot save")
}

// child runs a command with a kubeconfig for the port, until the command exits. An interrupt from the terminal also
// reaches the command, which decides whether to exit.
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
	cmd.Cancel = func() error { return nil } // the end of ctx must not kill the command; terminate asks it to exit
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

// Flags are the flags that say where and to whom objects are served.
type Flags struct {
	// Address is the HOST:PORT to serve at; empty serves nothing.
	Address    string
	Kubeconfig string
	hosts      []string
	certFile   string
	keyFile    string
	clientCA   string
	tokenFile  string
	offline    string
	narrow     bool
	memory     command.SizeValue
	// Secrets says that Secrets and other resources that the store encrypts are served, too.
	Secrets bool
	// Forward sends requests that larder cannot answer to the API server. Only larder sync has this flag.
	Forward bool
}

// Add adds the flags. what describes the served content, such as "the mirror".
func (f *Flags) Add(flags *pflag.FlagSet, what string) {
	flags.StringVar(&f.Address, "serve", "",
		"serve "+what+" at `HOST:PORT` as a Kubernetes API that can be read, over TLS; without a host, on loopback")
	flags.StringVar(&f.Kubeconfig, "serve-kubeconfig", "",
		"write a kubeconfig for it to this `FILE`, with a token that may read everything served")
	flags.StringSliceVar(&f.hosts, "serve-host", nil,
		"a `NAME` or an address for the certificate, besides loopback and the address of --serve; if --serve is every "+
			"interface, the kubeconfig has the first one")
	flags.StringVar(&f.certFile, "tls-cert-file", "",
		"a `FILE` with the server's certificate; default is one of larder's own CA")
	flags.StringVar(&f.keyFile, "tls-private-key-file", "", "a `FILE` with the key of --tls-cert-file")
	flags.StringVar(&f.clientCA, "client-ca-file", "",
		"accept client certificates that a CA in this `FILE` has signed")
	flags.StringVar(&f.tokenFile, "token-auth-file", "", "accept the tokens in this `FILE`: lines of "+
		"token,user,uid,\"group1,group2\"")
	flags.StringVar(&f.offline, "offline-access", "",
		"a `FILE` that says which users may read which resources while the API server does not respond")
	flags.BoolVar(&f.narrow, "narrow", false,
		"answer requests for more than is served with the served part, and a warning; default is to refuse them")
	f.memory = serve.DefaultMemory
	flags.Var(&f.memory, "serve-memory",
		"limit the memory of responses that clients are reading to `SIZE`, and of one user's to half of it; further "+
			"requests get 429")
	flags.Lookup("serve-memory").DefValue = "256Mi"
	flags.BoolVar(&f.Secrets, "serve-secrets", false,
		"also serve Secrets and other resources that a store seals")
}

const leastMemory = 16 << 20

// Check fails for an invalid flag, and brings addresses into a canonical form.
func (f *Flags) Check() (err error) {
	if (f.certFile == "") != (f.keyFile == "") {
		return command.Usagef("--tls-cert-file and --tls-private-key-file belong together")
	}
	if f.memory < leastMemory {
		return command.Usagef("--serve-memory must be %s at least: an answer takes up to half of it",
			command.Size(leastMemory))
	}
	if f.Address != "" {
		if f.Address, err = config.Address(f.Address); err != nil {
			return command.Usagef("--serve %w", err)
		}
	}
	for i, host := range f.hosts {
		f.hosts[i] = strings.Trim(host, "[]") // remove the brackets that an IPv6 address has in a URL
	}
	return nil
}

// CheckUnused fails if flags about serving are given without --serve, so that they would have no effect.
func (f *Flags) CheckUnused(flags *pflag.FlagSet) error {
	if f.Address != "" {
		return nil
	}
	var given []string
	for _, name := range []string{"serve-kubeconfig", "serve-host", "tls-cert-file", "tls-private-key-file",
		"client-ca-file", "token-auth-file", "offline-access", "narrow", "serve-memory", "serve-secrets", "forward"} {
		if flags.Changed(name) {
			given = append(given, "--"+name)
		}
	}
	switch len(given) {
	case 0:
		return nil
	case 1:
		return command.Usagef("%s needs --serve", given[0])
	}
	return command.Usagef("%s need --serve", strings.Join(given, ", "))
}

const (
	// baseMemory is the memory, in bytes, that a sync needs without clients, and connectionMemory the memory for each
	// client connection.
	baseMemory       = 64 << 20
	connectionMemory = 80 << 10
)

// limitMemory sets the soft memory limit of the Go runtime. The limit is the sum of the budget for responses, the
// connections and the process itself, or nine tenths of the container's limit if that is less. GOMEMLIMIT in the
// environment takes precedence.
func limitMemory(budget int64) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := baseMemory + budget + int64(access.Limits{}.WithDefaults().Connections)*connectionMemory
	if container := CgroupLimit("/"); container > 0 {
		limit = min(limit, container/10*9)
	}
	debug.SetMemoryLimit(limit)
}

// CgroupLimit returns the memory limit in bytes of this process's control groups (cgroups), version 1 or 2; 0 without a
// limit. root is the directory that contains proc and sys, "/" except in tests.
func CgroupLimit(root string) (limit int64) {
	groups, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0 // there is no proc/self/cgroup on systems other than Linux
	}
	for line := range strings.Lines(string(groups)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3) // a line such as 0::/system.slice/larder.service
		if len(part) != 3 {
			continue
		}
		at, file := "sys/fs/cgroup", "memory.max"
		switch part[1] {
		case "":
		case "memory":
			at, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// The lowest limit counts, because a parent's limit applies to its children, too.
		for group := path.Clean("/" + part[2]); ; group = path.Dir(group) {
			text, err := os.ReadFile(filepath.Join(root, at, group, file))
			n, notNumber := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err == nil && notNumber == nil && n > 0 && n < 1<<60 && (limit == 0 || n < limit) {
				limit = n
			}
			if group == "/" {
				break
			}
		}
	}
	return limit
}

func terminate(p *os.Process) {
	if runtime.GOOS == "windows" {
		_ = p.Kill()
		return
	}
	_ = p.Signal(syscall.SIGTERM)
}
