package subject

import (
	"fmt"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

// residency is one way in which Larder keeps objects in memory.
type residency struct {
	name string
	set  func(*informer.Options)
}

// boundedBytes is what the goals say: 64 MB.
const boundedBytes = 64 << 20

// The names of the residencies, which the goals of package report and its pictures know.
const (
	All     = "All"
	Bounded = "Bounded"
	None    = "None"
)

// residencies are all that are measured: a new one is a line here.
var residencies = []residency{
	{All, func(o *informer.Options) { o.Residency = store.All }},
	{Bounded, func(o *informer.Options) { o.Residency = store.Bounded(boundedBytes) }},
	{None, func(o *informer.Options) { o.Residency = store.None }},
}

// Residencies returns their names.
func Residencies() []string {
	var names []string
	for _, r := range residencies {
		names = append(names, r.name)
	}
	return names
}

func setResidency(name string, o *informer.Options) error {
	for _, r := range residencies {
		if r.name == name {
			r.set(o)
			return nil
		}
	}
	return fmt.Errorf("there is no residency %q", name)
}
