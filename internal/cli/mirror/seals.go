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

// toSeal is a name of encryption.resources.
type toSeal struct {
	name, place string
}

// sealsOf are the names that the configuration gives; not the default.
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

// checkSeals fails if a name fits nothing of the plan, as the store compares them: what was meant would be stored as it
// is. It says all of them. Secrets, by
// their full name, need not be mirrored: they are the default.
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

// checkServed fails if Secrets are to be served that are in memory only: nobody could list them.
func checkServed(plan []planned, set settings, mo memberOptions) error {
	isSecrets := func(p planned) bool { return p.identity.GroupVersionResource == input.Secrets.GroupVersionResource }
	stored := set.persistSecrets || set.storeOptions().Encryption.Seals(input.Secrets.GroupResource())
	if !mo.servesSecrets || stored || !slices.ContainsFunc(plan, isSecrets) {
		return nil
	}
	return command.WithHint(command.Usagef("secrets are kept in memory only, and cannot be served"),
		"%s; or leave out --serve-secrets", mo.howStored())
}

// howStored says how Secrets are stored.
func (mo *memberOptions) howStored() string {
	if mo.configured {
		return "encryption.keyFile in the configuration stores them sealed, persistSecrets as they are"
	}
	return "--key-file FILE stores them sealed, --persist-secrets as they are"
}

// meant says what would fit.
func (s toSeal) meant(mirrored []input.Resource) string {
	if like, ok := source.Match(s.name, mirrored); ok {
		return "write " + like.String()
	}
	if meant := input.DidYouMean(s.name, mirrored); meant != "" {
		return meant
	}
	return "mirrored are " + input.Names(mirrored, input.Resource.String)
}
