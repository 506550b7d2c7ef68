package serving

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/config"
	"github.com/larder-dev/larder/serve"
)

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
