package mirror

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/config"
	"github.com/larder-dev/larder/internal/source"
)

// toSeal is the name of a resource in encryption.resources and the position of that name in the configuration.
type toSeal struct {
	name, place string
}

// sealsOf returns the names of resources to encrypt that the configuration itself lists in encryption.resources,
// without the default.
func sealsOf(c *config.Config) []toSeal {
	if c.Encryption == nil || !c.Encryption.Named {
		return nil
	}
	var all []toSeal
	for i, name := range c.Encryption.Resources {
		all = append(all, toSeal{name, fmt.Sprintf("%s: encryption.resources[%d]", c.File, i)})
	}
	return all
}

// checkSeals fails if a name in encryption.resources matches no resource that the sync mirrors. The name may be
// misspelled, and the intended resource would be stored in plain text. The error lists all names without a match. Names
// ignore case, as in the store. "secrets" is the default, and need not match.
func checkSeals(all []toSeal, plan []planned) error {
	var mirrored []input.Resource
	for _, p := range plan {
		mirrored = append(mirrored, p.resource)
	}
	var wrong []error
	for _, s := range all {
		fits := func(r input.Resource) bool {
			g := schema.ParseGroupResource(s.name)
			return strings.EqualFold(g.Group, r.Group) && strings.EqualFold(g.Resource, r.Resource)
		}
		if !fits(input.Secrets) && !slices.ContainsFunc(mirrored, fits) {
			wrong = append(wrong, fmt.Errorf("%s: %q is not the full name of what is mirrored, and would seal nothing; %s",
				s.place, s.name, s.meant(mirrored)))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return command.Usage(errors.Join(wrong...))
}

// checkServed fails if Secrets are to be served but are only in memory, because the served API could not list them.
func checkServed(plan []planned, set settings, mo memberOptions) error {
	isSecrets := func(p planned) bool { return p.identity.GroupVersionResource == input.Secrets.GroupVersionResource }
	stored := set.persistSecrets || set.storeOptions().Encryption.Seals(input.Secrets.GroupResource())
	if !mo.servesSecrets || stored || !slices.ContainsFunc(plan, isSecrets) {
		return nil
	}
	return command.WithHint(command.Usagef("secrets are kept in memory only, and cannot be served"),
		"%s; or leave out --serve-secrets", mo.howStored())
}

func (mo *memberOptions) howStored() string {
	if mo.configured {
		return "encryption.keyFile in the configuration stores them sealed, persistSecrets as they are"
	}
	return "--key-file FILE stores them sealed, --persist-secrets as they are"
}

func (s toSeal) meant(mirrored []input.Resource) string {
	if like, ok := source.Match(s.name, mirrored); ok {
		return "write " + like.String()
	}
	if meant := input.DidYouMean(s.name, mirrored); meant != "" {
		return meant
	}
	return "mirrored are " + input.Names(mirrored, input.Resource.String)
}
