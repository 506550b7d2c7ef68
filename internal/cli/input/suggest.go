package input

import (
	"slices"
	"strings"

	"github.com/larder-dev/larder/internal/cli/command"
)

const mostSuggested = 3

// DidYouMean returns "did you mean pods?" with the resources whose names resemble arg; "" without any.
func DidYouMean(arg string, known []Resource) string {
	near := nearest(arg, known)
	if len(near) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(near, " or ") + "?"
}

func nearest(arg string, known []Resource) (near []string) {
	name, _, _ := strings.Cut(strings.ToLower(arg), ".")
	if len(name) < 3 { // names of one or two letters resemble every word, so they are not suggested
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
