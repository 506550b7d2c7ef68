package serving

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/config"
	"github.com/larder-dev/larder/serve"
)

// Flags are the flags that say where and to whom objects are served.
type Flags struct {
	// Address is HOST:PORT. Without it nothing is served.
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
	// Secrets also serves Secrets and sealed resources.
	Secrets bool
	// Forward sends requests that larder cannot answer to the API server; only for sync.
	Forward bool
}

// Add adds the flags. what describes the served content, such as "the mirror".
func (f *Flags) Add(flags *pflag.FlagSet, what string) {
	flags.StringVar(&f.Address, "serve", "", "serve "+what+" at `HOST:PORT` as a Kubernetes API that can be read, over "+
		"TLS; without a host it is loopback")
	flags.StringVar(&f.Kubeconfig, "serve-kubeconfig", "", "write a kubeconfig for it to this `FILE`, with a token that "+
		"reads everything served")
	flags.StringSliceVar(&f.hosts, "serve-host", nil, "a `NAME` or an address, besides loopback and that of --serve, "+
		"that the certificate is for; where --serve is every interface, the first is in the kubeconfig")
	flags.StringVar(&f.certFile, "tls-cert-file", "", "a `FILE` with the certificate to show; default is one of an "+
		"authority of larder's own")
	flags.StringVar(&f.keyFile, "tls-private-key-file", "", "a `FILE` with the key of --tls-cert-file")
	flags.StringVar(&f.clientCA, "client-ca-file", "", "accept client certificates that an authority in this `FILE` "+
		"has signed")
	flags.StringVar(&f.tokenFile, "token-auth-file", "", "accept the tokens in this `FILE`: lines of "+
		"token,user,uid,\"group1,group2\"")
	flags.StringVar(&f.offline, "offline-access", "", "a `FILE` that says who may read what while the API server cannot "+
		"be asked")
	flags.BoolVar(&f.narrow, "narrow", false, "answer requests for more than there is with what there is, and a warning; "+
		"default is to refuse them")
	f.memory = serve.DefaultMemory
	flags.Var(&f.memory, "serve-memory", "let answers that clients read take `SIZE` of memory at most, half of it "+
		"those of one user; 429 beyond")
	flags.Lookup("serve-memory").DefValue = "256Mi"
	flags.BoolVar(&f.Secrets, "serve-secrets", false, "serve Secrets, and what a store seals, too")
}

// leastMemory is the smallest accepted --serve-memory, in bytes.
const leastMemory = 16 << 20

// Check validates the flags and normalizes addresses.
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
		f.hosts[i] = strings.Trim(host, "[]") // the brackets of an IPv6 address in a URL
	}
	return nil
}

// CheckUnused fails if flags about serving are given without an address to serve at.
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
