package mirror

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/agekeys"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/cli/schemes"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/remote"
)

// seedFlags are the flags that fill a new store from a snapshot, called the seed, instead of a list.
type seedFlags struct {
	from, cluster string
	kubeconfig    string
	maxAge        command.AgeValue
	identities    []string
	keys          []string
}

func (s *seedFlags) add(f *pflag.FlagSet) {
	f.StringVar(&s.from, "seed", "",
		"if nothing is mirrored yet, begin with the snapshot at a `URL` (a path, https, s3, oci) instead of a list, and "+
			"watch from there. A URL that ends in a slash, or of an OCI repository, means its latest snapshot")
	f.StringVar(&s.cluster, "seed-cluster", "",
		"with --seed, the `ID` of the cluster that the snapshot must be of (the UID of its namespace kube-system); default "+
			"is the API server's")
	f.StringVar(&s.kubeconfig, "seed-kubeconfig", "",
		"with --seed https://…, use the certificates and the token in this `FILE`, such as the kubeconfig of another larder "+
			"sync --serve --snapshot-to DIR/, whose snapshots are at /snapshot/")
	f.Var(&s.maxAge, "seed-max-age", "with --seed, refuse a snapshot that is older than `DURATION`, such as 24h")
	f.StringArrayVar(&s.identities, "seed-identity", nil,
		"with --seed, a `FILE` of age identities that decrypts it; may be given again")
	f.StringArrayVar(&s.keys, "seed-key", nil,
		"with --seed, refuse a snapshot that is not signed by this public `KEY` of minisign, or by the one in the file KEY; "+
			"may be given again, for alternatives")
}

func (s *seedFlags) unsigned() string {
	if s.from == "" || len(s.keys) > 0 {
		return ""
	}
	return "the seed need not be signed: whoever can write where --seed leads decides what a first start shows until " +
		"the API server is reached; --seed-key KEY asks for a signature"
}

// check fails if a flag has no effect without another flag.
func (s *seedFlags) check(f *pflag.FlagSet) error {
	if s.from != "" {
		return nil
	}
	for _, name := range []string{"seed-cluster", "seed-max-age", "seed-identity", "seed-key", "seed-kubeconfig"} {
		if f.Changed(name) {
			return command.Usagef("--%s needs --seed", name)
		}
	}
	if f.Changed("seed") {
		return command.Usagef("--seed needs a URL")
	}
	return nil
}

func (s *seedFlags) open() (snapshot.Seed, error) {
	if s.from == "" {
		return nil, nil
	}
	o := schemes.Options()
	o.MaxAge = time.Duration(s.maxAge)
	var err error
	if o.SignedBy, err = input.PublicKeys("seed-key", s.keys); err != nil {
		return nil, err
	}
	for _, file := range s.identities {
		ids, err := agekeys.ReadIdentities(file)
		if err != nil {
			return nil, command.Usagef("--seed-identity: %w", err)
		}
		o.Identities = append(o.Identities, ids...)
	}
	if s.kubeconfig != "" {
		if o.Client, err = clientOf(s.kubeconfig, s.from); err != nil {
			return nil, command.Usagef("--seed-kubeconfig: %w", err)
		}
	}
	err = remote.Check(s.from, o)
	if errors.Is(err, remote.ErrPlainHTTP) {
		return nil, command.WithHint(command.Usagef("--seed: %w", err), "the key is that of --seed-key")
	}
	if err != nil {
		return nil, command.Usagef("--seed: %w", err)
	}
	return remote.Seed(s.from, o), nil
}

// clientOf returns an HTTP client with the certificates and credentials of a kubeconfig, for the URL from. It fails if
// the URL is not on the server of that kubeconfig, because another server would receive the credentials.
func clientOf(path, from string) (*http.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, err
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, errors.New("its server's URL is malformed")
	}
	if u, err := url.Parse(from); err != nil || u.Scheme != server.Scheme || u.Host != server.Host {
		return nil, fmt.Errorf("its credentials are for %s://%s, and not for where --seed leads", server.Scheme, server.Host)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client, nil
}

const begunWith = "begun with"

// seeded describes the seed that filled a collection, or why the seed could not be used; "" without a seed.
func seeded(st *informer.SeedStatus) string {
	switch {
	case st == nil:
		return ""
	case st.Err != nil:
		return fmt.Sprintf("listed, since the seed cannot be used: %v", st.Err)
	}
	return fmt.Sprintf("%s %s of %s, and watched on from its resourceVersion %s", begunWith, st.Source,
		st.Taken.UTC().Format(time.RFC3339), st.ResourceVersion)
}
