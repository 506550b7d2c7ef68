package input

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
)

// Request selects the objects that a command reads.
type Request struct {
	Resource string
	// Namespace is the requested namespace. It is ignored if All is set.
	Namespace string
	All       bool
	// Selector is the requested label selector in canonical form.
	Selector string
	// Fields is the requested field selector in canonical form.
	Fields string
	// Collection, unless it is empty, is the beginning of a collection ID. The user chooses among several collections with
	// it.
	Collection string
}

// Choice holds the collections that answer a Request.
type Choice struct {
	Resource Resource
	// Collections are collections of different namespaces, sorted by namespace.
	Collections []source.Collection
	Notes       []string
}

// Choose finds the stored collections that answer the request. A single collection that covers the request suffices.
// Otherwise Choose combines collections without common objects, or returns the only collection with a part of the
// requested objects, and a note. If several collections overlap, Choose fails and lists them. A namespace that was
// never mirrored is an error, not an empty answer.
func Choose(storePath string, all []source.Collection, r Request) (Choice, error) {
	res, err := chooseResource(storePath, all, r)
	if err != nil {
		return Choice{}, err
	}
	var same, reach, cover []source.Collection
	for _, c := range all {
		if c.GVR() != res.GroupVersionResource || !strings.HasPrefix(c.ID, r.Collection) {
			continue
		}
		same = append(same, c)
		if reaches(c, r) {
			reach = append(reach, c)
		}
		if covers(c, r) {
			cover = append(cover, c)
		}
	}
	switch {
	case len(cover) > 0:
		best := slices.MinFunc(cover, func(a, b source.Collection) int {
			return entry.Prefer(a.Saved().Info(), b.Saved().Info())
		})
		return Choice{res, []source.Collection{best}, append(alike(best, cover), incomplete(storePath, best)...)}, nil
	case len(reach) == 0:
		return Choice{}, outOfScope(storePath, res, same, r)
	case len(reach) == 1 || disjoint(reach):
		slices.SortFunc(reach, func(a, b source.Collection) int { return cmp.Compare(a.Namespace, b.Namespace) })
		return Choice{res, reach, partial(storePath, res, reach)}, nil
	}
	return Choice{}, command.WithHint(
		fmt.Errorf("%s stores %s %d times, none of them all that you ask for:\n%s", storePath, res, len(reach), List(reach)),
		"choose one with --collection ID")
}

func chooseResource(storePath string, all []source.Collection, r Request) (Resource, error) {
	known := StoredResources(all)
	if r.Collection != "" {
		known = StoredResources(slices.DeleteFunc(slices.Clone(all), func(c source.Collection) bool {
			return !strings.HasPrefix(c.ID, r.Collection)
		}))
	}
	if found, ok := source.Match(r.Resource, known); ok {
		return found, nil
	}
	return Resource{}, notStored(storePath, all, r)
}

// sameName returns the error for a name that means a resource that is not stored, although a stored resource of another
// group or version has the name, too. It returns nil if no stored resource has the name.
func sameName(storePath string, name string, known []Resource) error {
	var called []Resource
	for _, r := range known {
		if slices.Contains(r.Elsewhere, strings.ToLower(name)) {
			called = append(called, r)
		}
	}
	if len(called) == 0 {
		return nil
	}
	if slices.ContainsFunc(called, func(r Resource) bool { return r.Retired }) {
		return command.WithHint(fmt.Errorf("the API server has %q in another version, which %s does not have: it has %s",
			name, storePath, Names(called, Resource.Full)), "write the full name for the old objects: %s", called[0].Full())
	}
	return command.WithHint(fmt.Errorf("to kubectl %q is another resource, which %s does not have: it has %s", name,
		storePath, Names(called, Resource.String)), "write the name with its group: %s", called[0])
}

func notStored(storePath string, all []source.Collection, r Request) error {
	if r.Collection != "" {
		return command.WithHint(fmt.Errorf("%s has no collection %s of %q", storePath, r.Collection, r.Resource),
			"larder status --from %s lists them", storePath)
	}
	known := StoredResources(all)
	if err := sameName(storePath, r.Resource, known); err != nil {
		return err
	}
	holds := "it is empty"
	if len(known) > 0 {
		holds = "it has " + Names(known, Resource.String)
	}
	if meant := DidYouMean(r.Resource, known); meant != "" {
		return command.WithHint(fmt.Errorf("%s %s has no resource %q", meant, storePath, r.Resource),
			"larder status %s prints what it has", storePath)
	}
	if IsSnapshot(storePath) {
		return command.WithHint(fmt.Errorf("%s has no resource %q: %s", storePath, r.Resource, holds),
			"a snapshot has what larder snapshot save was given, and secrets only if it is encrypted or they were asked for")
	}
	if members := source.Members(r.Resource); len(members) > 0 {
		return command.WithHint(fmt.Errorf("%s has no resource of the category %q: %s", storePath, r.Resource, holds),
			"mirror it with: %s", SyncCommand(storePath, all, r.Resource))
	}
	err := fmt.Errorf("%s has no resource %q: %s", storePath, r.Resource, holds)
	others := StoredResources(source.WellKnownNames())
	name, _, _ := strings.Cut(r.Resource, ".") // the resource may be known, although its group is not
	if meant := nearest(r.Resource, others); len(meant) > 0 && !matches(name, others...) {
		return command.WithHint(err, "did you mean %s? That is not stored either; larder sync stores it",
			strings.Join(meant, " or "))
	}
	switch {
	case matches(r.Resource, Secrets):
		return command.WithHint(err, storeSecrets)
	case len(all) == 0:
		return command.WithHint(err, "mirror it with: %s", SyncCommand(storePath, all, r.Resource))
	}
	return command.WithHint(err, "add it to the resources of your larder sync%s", exampleSync(storePath, all, r.Resource))
}

func matches(name string, all ...Resource) bool {
	_, ok := source.Match(name, all)
	return ok
}

// exampleSync returns a command line that continues the store's sync and also mirrors the added resource. It returns ""
// if one command line cannot express that.
func exampleSync(storePath string, all []source.Collection, added string) string {
	for _, c := range all {
		if Scope(c) != "all" {
			return ""
		}
	}
	return ": " + SyncCommand(storePath, all, Names(StoredResources(all), Resource.String)+" "+added)
}

func outOfScope(storePath string, res Resource, same []source.Collection, r Request) error {
	hint := "ask for one of these with -n, or for all with -A"
	return command.WithHint(fmt.Errorf("%s has no %s of namespace %q, only:\n%s", storePath, res, r.Namespace, List(same)),
		"%s",
		hint)
}

func reaches(c source.Collection, r Request) bool {
	return (c.Namespace == "" || r.All || c.Namespace == r.Namespace) && !savedWithout(c, r)
}

func savedWithout(c source.Collection, r Request) bool {
	return !r.All && len(c.Namespaces) > 0 && !slices.Contains(c.Namespaces, r.Namespace)
}

func covers(c source.Collection, r Request) bool {
	inNamespace := c.Namespace == "" || (!r.All && c.Namespace == r.Namespace)
	byLabel := c.LabelSelector == "" || c.LabelSelector == r.Selector
	byField := c.FieldSelector == "" || c.FieldSelector == r.Fields
	return inNamespace && byLabel && byField && c.ShardSelector == "" && !savedWithout(c, r)
}

func disjoint(all []source.Collection) bool {
	seen := map[string]bool{}
	for _, c := range all {
		if c.Namespace == "" || seen[c.Namespace] {
			return false
		}
		seen[c.Namespace] = true
	}
	return true
}

// alike returns a note about the chosen collection if the same objects are stored in several representations, such as
// whole objects and metadata.
func alike(picked source.Collection, all []source.Collection) []string {
	ways := []string{picked.Representation}
	for _, c := range all {
		if Scope(c) == Scope(picked) && !slices.Contains(ways, c.Representation) {
			ways = append(ways, c.Representation)
		}
	}
	if len(ways) == 1 {
		return nil
	}
	return []string{
		fmt.Sprintf("these %s are stored %s; printed is what is stored %s, collection %s; --collection chooses another",
			picked.Resource, strings.Join(ways, " and "), picked.Representation, picked.ID)}
}

func incomplete(storePath string, c source.Collection) []string {
	var notes []string
	if len(c.Filtered) > 0 {
		notes = append(notes, partOf(storePath, c))
	}
	if RedactionOf(c) != "" {
		notes = append(notes, redactedOf(storePath, c))
	}
	if why := unfinished(c); why != "" {
		notes = append(notes, why)
	}
	for _, n := range KnownDefects(c) {
		notes = append(notes, n.Text)
	}
	if c.Representation == string(entry.Metadata) {
		notes = append(notes, "only metadata is stored")
	}
	return notes
}

func unfinished(c source.Collection) string {
	mustRelist := slices.IndexFunc(c.Notes, func(n entry.Note) bool { return n.Kind == entry.NoteMustRelist })
	switch {
	case c.Complete:
		return ""
	case !c.TakenAt.IsZero() && c.MustRelist != "" && MissesObjects(c):
		return "objects are missing: " + c.MustRelist
	case mustRelist >= 0: // the store was restored from a partial or redacted snapshot
		return c.Notes[mustRelist].Text
	case Forbidden(c):
		return "the API server forbids it to the running sync: objects are missing"
	}
	return "the first list has not been finished: objects are missing"
}

func partial(storePath string, res Resource, parts []source.Collection) []string {
	var notes []string
	for _, c := range parts {
		notes = append(notes, fmt.Sprintf("of all %s only these are stored: %s", res, Scope(c)))
		notes = append(notes, incomplete(storePath, c)...)
	}
	return notes
}

// Scope describes which objects of its resource a collection contains: the namespace and the selectors.
func Scope(c source.Collection) string {
	var s []string
	for _, part := range []struct{ name, value string }{
		{"namespace ", c.Namespace}, {"-l ", c.LabelSelector}, {"--field-selector ", c.FieldSelector},
		{"shard ", c.ShardSelector},
	} {
		if part.value != "" {
			s = append(s, part.name+part.value)
		}
	}
	if len(s) == 0 {
		return "all"
	}
	return strings.Join(s, " ")
}

// List describes the collections, a line each, for an error that asks the user to choose.
func List(all []source.Collection) string {
	var lines []string
	for _, c := range all {
		held := Scope(c)
		if len(c.Namespaces) > 0 {
			held = strings.Join(c.Filtered, "; ")
		}
		lines = append(lines, fmt.Sprintf("  %s  %s (%s, %s)", c.ID, held, c.Representation,
			command.CountedObjects(c.Objects)))
	}
	return strings.Join(lines, "\n")
}

// SyncCommand returns, for a hint, a larder sync command line that mirrors the resources into a store that has the
// stored collections. If a collection keeps changes, the line has the flag that keeps them, because a sync without the
// flag deletes the changelog.
func SyncCommand(storePath string, stored []source.Collection, resources string) string {
	line := "larder sync " + strings.ReplaceAll(resources, ",", "") + " --store " + storePath
	var keep time.Duration
	for _, c := range stored {
		if c.Changes == nil {
			continue
		}
		if d, err := time.ParseDuration(c.Changes.KeptFor); err == nil {
			keep = max(keep, d)
		}
	}
	if keep > 0 {
		line += " --keep-changes " + command.Span(keep)
	}
	return line
}
