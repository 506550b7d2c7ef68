package query

import (
	"errors"
	"fmt"
	"strings"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
)

// target is a resource or category that the user wrote, with the names of the requested objects; no names means all
// objects.
type target struct {
	resource string
	names    []string
	// several says that the command line has more than one target, that is, resource or category.
	several bool
}

// answer holds the collections that answer a target of the command line, or one resource of a target that is a
// category.
type answer struct {
	input.Choice
	names []string
}

// parse checks the flags and parses the arguments like kubectl: either comma-separated resources followed by names of
// objects, or any number of RESOURCE/NAME.
func (o *getOptions) parse(args []string) ([]target, error) {
	args = o.from.LeadingFile(args)
	if err := errors.Join(o.from.Check(), o.print.check()); err != nil {
		return nil, command.Usage(err)
	}
	if len(args) == 0 {
		return nil, command.Usagef("%s is a file: name what is to be read of it, too, as in: larder get %[1]s pods -A",
			o.from.Path)
	}
	if o.namespace == "" { // like kubectl, which takes an empty -n as the default namespace
		o.namespace = defaultNamespace
	}
	targets, err := targetsOf(args)
	if err != nil {
		return nil, err
	}
	if o.selector, o.fields, err = input.CanonicalSelectors(o.selector, o.fields); err != nil {
		return nil, err
	}
	named := len(targets[0].names) > 0
	switch {
	case named && (o.selector != "" || o.fields != ""):
		return nil, command.Usagef("give either names or a selector")
	case named && o.all:
		return nil, command.Usagef("an object cannot be asked for by name across all namespaces; use -n")
	case o.collection != "" && len(targets) > 1:
		return nil, command.Usagef("--collection is one resource's; ask for one resource at a time")
	}
	return targets, nil
}

// targetsOf parses the arguments into at least one target, that is, a resource and the names of its objects. Either all
// targets have names, or none has.
func targetsOf(args []string) ([]target, error) {
	if strings.Contains(args[0], "/") {
		return namedTargets(args)
	}
	var all []target
	for _, r := range strings.Split(args[0], ",") {
		if r == "" {
			return nil, command.Usagef("%q names no resource before or after a comma", args[0])
		}
		for _, name := range args[1:] {
			if strings.Contains(name, "/") {
				return nil, command.Usagef("write either RESOURCE NAME… or RESOURCE/NAME…, not %q", strings.Join(args, " "))
			}
		}
		all = append(all, target{resource: r, names: args[1:]})
	}
	return mark(all), nil
}

// namedTargets parses RESOURCE/NAME arguments. It combines adjacent arguments with one resource into one target.
func namedTargets(args []string) ([]target, error) {
	var all []target
	for _, arg := range args {
		r, name, ok := strings.Cut(arg, "/")
		if !ok || r == "" || name == "" || strings.ContainsAny(r, ",") || strings.Contains(name, "/") {
			return nil, command.Usagef("write either RESOURCE NAME… or RESOURCE/NAME…, not %q", strings.Join(args, " "))
		}
		if n := len(all); n > 0 && all[n-1].resource == r {
			all[n-1].names = append(all[n-1].names, name)
			continue
		}
		all = append(all, target{resource: r, names: []string{name}})
	}
	return mark(all), nil
}

func mark(all []target) []target {
	for i := range all {
		all[i].several = len(all) > 1
	}
	return all
}

// choose finds the stored collections that answer the targets. After an error for a target, it still returns the other
// answers.
func (o *getOptions) choose(stored []source.Collection, targets []target) ([]answer, error) {
	var all []answer
	var failed []error
	for _, t := range targets {
		names := []string{t.resource}
		members := input.MembersOf(t.resource, stored)
		if len(members) > 0 {
			names = members
		}
		for _, name := range names {
			c, err := input.Choose(o.from.Path, stored, input.Request{
				Resource: name, Namespace: o.namespace, All: o.all, Selector: o.selector, Fields: o.fields,
				Collection: o.collection,
			})
			if err != nil {
				failed = append(failed, err)
				continue
			}
			all = append(all, answer{c, t.names})
		}
		if len(members) > 0 {
			if absent := input.AbsentMembers(t.resource, stored); absent != "" && len(all) > 0 {
				last := &all[len(all)-1]
				last.Notes = append(last.Notes, fmt.Sprintf("of the category %s these are not stored: %s", t.resource, absent))
			}
		}
	}
	return all, errors.Join(failed...)
}
