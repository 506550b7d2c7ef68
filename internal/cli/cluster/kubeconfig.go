package cluster

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
)

// clientQPS and clientBurst limit the requests for each resource. A mirror makes few requests; the limits protect the
// server from a faulty mirror.
const (
	clientQPS   = 50
	clientBurst = 100
)

// Config returns the client configuration from the kubeconfig or from the service account of a pod. It does not contact
// the server. If the server later rejects a token that is in the kubeconfig itself, the kubeconfig is read again.
func Config(flags *Flags) (*rest.Config, error) {
	loader := flags.loader()
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, unusable(err)
	}
	files := kubeconfigFiles(loader)
	if err := checkContext(raw, flags.Overrides.CurrentContext, files); err != nil {
		return nil, err
	}
	config, err := loader.ClientConfig()
	switch {
	case err != nil && len(raw.Contexts)+len(raw.Clusters) == 0 && flags.Overrides.ClusterInfo.Server == "":
		return nil, noCluster(raw, files)
	case err != nil:
		return nil, unusable(err)
	}
	if flags.Overrides.ClusterInfo.Server == "" && !namesCluster(raw, flags) && isFallback(config) {
		return nil, noCluster(raw, files)
	}
	config = rest.CopyConfig(config)
	config.UserAgent = "larder/" + source.Version()
	// The user of a mirror cannot act on the server's warnings about deprecated resources.
	config.WarningHandler = rest.NoWarnings{}
	config.QPS, config.Burst = clientQPS, clientBurst
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	renewToken(config, kubeconfigReader(flags, raw.CurrentContext))
	return config, nil
}

func unusable(err error) error {
	return command.Usage(command.WithHint(err, "name a kubeconfig with --kubeconfig or KUBECONFIG"))
}

func checkContext(raw clientcmdapi.Config, asked string, files string) error {
	if len(raw.Contexts) == 0 { // noCluster has a better hint for a missing kubeconfig
		if asked == "" || len(raw.Clusters) == 0 {
			return nil
		}
	}
	name, why := asked, "context"
	if name == "" {
		name, why = raw.CurrentContext, "current context"
	}
	if name == "" || raw.Contexts[name] != nil {
		return nil
	}
	return command.Usage(command.WithHint(fmt.Errorf("the %s %q does not exist in the kubeconfig %s", why, name, files),
		"name another with --context; it has %s", contextNames(raw)))
}

func contextNames(raw clientcmdapi.Config) string {
	if len(raw.Contexts) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", ")
}

func namesCluster(raw clientcmdapi.Config, flags *Flags) bool {
	name := flags.Overrides.Context.Cluster
	if name == "" {
		context := flags.Overrides.CurrentContext
		if context == "" {
			context = raw.CurrentContext
		}
		if c := raw.Contexts[context]; c != nil {
			name = c.Cluster
		}
	}
	return raw.Clusters[name] != nil
}

// isFallback reports whether client-go found no configuration, neither a kubeconfig nor a service account, and fell
// back to localhost:8080. A server set in KUBERNETES_MASTER is not a fallback.
func isFallback(config *rest.Config) bool {
	return config.Host == clientcmd.ClusterDefaults.Server && os.Getenv("KUBERNETES_MASTER") == ""
}

func noCluster(raw clientcmdapi.Config, files string) error {
	if len(raw.Contexts) > 0 {
		return command.Usage(command.WithHint(fmt.Errorf("the kubeconfig %s has no current context", files),
			"name one with --context; it has %s", contextNames(raw)))
	}
	err := errors.New("no kubeconfig was found, and this is no pod of a cluster")
	if files != "" {
		err = fmt.Errorf("no kubeconfig was found at %s, and this is no pod of a cluster", files)
	}
	return command.Usage(command.WithHint(err,
		"name the cluster with --kubeconfig FILE, the environment variable KUBECONFIG, or --server URL"))
}

func kubeconfigFiles(loader clientcmd.ClientConfig) string {
	access := loader.ConfigAccess()
	if access.IsExplicitFile() {
		return access.GetExplicitFile()
	}
	return strings.Join(access.GetLoadingPrecedence(), ", ")
}

// Flags are kubectl's connection and credential flags. They use clientcmd directly: cli-runtime's flags import
// kustomize, which adds 3 MB to the program.
type Flags struct {
	Kubeconfig string
	Overrides  clientcmd.ConfigOverrides
	asExtra    []string // asExtra is extra user info to impersonate, as KEY=VALUE
	loader     func() clientcmd.ClientConfig
}

// NewFlags returns kubectl's connection flags without those for a namespace or a password. The kubeconfig is read once,
// so later changes of the flags have no effect.
func NewFlags() *Flags {
	f := &Flags{Overrides: clientcmd.ConfigOverrides{ClusterDefaults: clientcmd.ClusterDefaults}}
	f.loader = sync.OnceValue(f.newLoader)
	return f
}

func (f *Flags) newLoader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.DefaultClientConfig = &clientcmd.DefaultClientConfig
	rules.ExplicitPath = f.Kubeconfig
	for _, extra := range f.asExtra {
		if key, value, ok := strings.Cut(extra, "="); ok {
			as := &f.Overrides.AuthInfo
			if as.ImpersonateUserExtra == nil {
				as.ImpersonateUserExtra = map[string][]string{}
			}
			as.ImpersonateUserExtra[key] = append(as.ImpersonateUserExtra[key], value)
		}
	}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &f.Overrides)
}

// AddFlags adds the connection flags to a command's flags.
func (f *Flags) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.Kubeconfig, clientcmd.RecommendedConfigPathFlag, "",
		"Path to the kubeconfig file to use for CLI requests.")
	flags.StringArrayVar(&f.asExtra, "as-user-extra", nil,
		"User extras to impersonate for the operation, this flag can be repeated to "+
			"specify multiple values for the same key.")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{}
	names.AuthOverrideFlags.Username, names.AuthOverrideFlags.Password = clientcmd.FlagInfo{}, clientcmd.FlagInfo{}
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	clientcmd.BindOverrideFlags(&f.Overrides, flags, names)
}

// Named reports whether the user has set a connection flag on the command line. The variable KUBECONFIG does not count.
func Named(cmd *cobra.Command) bool {
	connection := pflag.NewFlagSet("", pflag.ContinueOnError)
	NewFlags().AddFlags(connection)
	named := false
	connection.VisitAll(func(f *pflag.Flag) { named = named || cmd.Flags().Changed(f.Name) })
	return named
}
