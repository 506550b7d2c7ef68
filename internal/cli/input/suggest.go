package input

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
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

// nearest returns the resources of which a name, a short name or the kind begins with what was written, or is few
// letters away from it: one, or one in four, or two that have changed places.
func nearest(arg string, known []Resource) (near []string) {
	name, _, _ := strings.Cut(strings.ToLower(arg), ".")
	if len(name) < 3 { // everything short is near
		return nil
	}
	of := map[string][]Resource{}
	words := &cobra.Command{}
	for _, r := range known {
		for _, word := range append([]string{r.Resource, r.Singular, strings.ToLower(r.Kind)}, r.ShortNames...) {
			if word == "" {
				continue
			}
			if of[word] == nil {
				words.AddCommand(&cobra.Command{Use: word, Run: func(*cobra.Command, []string) {}})
			}
			of[word] = append(of[word], r)
		}
	}
	// What cobra does for commands is right for resources.
	for words.SuggestionsMinimumDistance = 1; len(near) == 0 &&
		words.SuggestionsMinimumDistance <= max(1, len(name)/4); words.SuggestionsMinimumDistance++ {
		for _, word := range append(words.SuggestionsFor(name), swapped(name, of)...) {
			for _, r := range of[word] {
				if s := r.String(); len(near) < mostSuggested && !slices.Contains(near, s) {
					near = append(near, s)
				}
			}
		}
	}
	return near
}

// swapped returns the words that name is once two of its letters that stand beside each other have changed places,
// which cobra counts as two mistakes.
func swapped(name string, of map[string][]Resource) (near []string) {
	for i := 1; i < len(name); i++ {
		if word := name[:i-1] + name[i:i+1] + name[i-1:i] + name[i+1:]; of[word] != nil {
			near = append(near, word)
		}
	}
	return near
}
