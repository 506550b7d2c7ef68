package cluster

import (
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
)

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
