package input

import (
	"slices"
	"strings"

	"github.com/larder-dev/larder/internal/cli/command"
)

// mostSuggested limits the number of suggestions for an unknown resource.
const mostSuggested = 3

// DidYouMean returns "did you mean pods?" with the resources whose names resemble arg; "" without any.
func DidYouMean(arg string, known []Resource) string {
	near := nearest(arg, known)
	if len(near) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(near, " or ") + "?"
}

// nearest returns the resources with a name, short name or kind that begins with arg or is spelled nearly like it.
func nearest(arg string, known []Resource) (near []string) {
	name, _, _ := strings.Cut(strings.ToLower(arg), ".")
	if len(name) < 3 { // short words are near to everything
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
