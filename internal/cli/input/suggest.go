package input

import (
	"slices"
	"strings"

	"github.com/larder-dev/larder/internal/cli/command"
)

// mostSuggested is how many resources are suggested for one that is not known.
const mostSuggested = 3

// DidYouMean asks whether one of the resources was meant that are called nearly so: "did you mean pods?"; it is empty
// if none is.
func DidYouMean(arg string, known []Resource) string {
	near := nearest(arg, known)
	if len(near) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(near, " or ") + "?"
}

// nearest returns the resources of which a name, a short name or the kind begins with what was written, or is spelled
// nearly so.
func nearest(arg string, known []Resource) (near []string) {
	name, _, _ := strings.Cut(strings.ToLower(arg), ".")
	if len(name) < 3 { // everything short is near
		return nil
	}
	for _, r := range known {
		words := append([]string{r.Resource, r.Singular, strings.ToLower(r.Kind)}, r.ShortNames...)
		if s := r.String(); len(near) < mostSuggested && !slices.Contains(near, s) &&
			slices.ContainsFunc(words, func(word string) bool {
				return word != "" && (strings.HasPrefix(word, name) || command.Near(name, word))
			}) {
			near = append(near, s)
		}
	}
	return near
}
