package serving

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/serve/page"
	"github.com/larder-dev/larder/store"
)

// ofMirror, ofStore and ofSnapshot are the page's words for the served content.
const (
	ofMirror   = "mirror"
	ofStore    = "store"
	ofSnapshot = "snapshot"
)

func (p *Port) pageOptions(s Served) page.Options {
	o := page.Options{Status: func(ctx context.Context) (page.Status, error) {
		status, err := s.Status(ctx)
		if errors.Is(err, store.ErrOverwritten) {
			err = apierrors.NewServiceUnavailable(err.Error())
		}
		shown, memory := pageStatus(time.Now(), status, p.o.Secrets), p.Memory.Usage()
		shown.Memory = page.Memory{Size: memory.Size, Used: memory.Used, Refused: memory.Refused}
		return shown, err
	}}
	if s.Log != nil {
		o.Changes = p.changed(s)
	}
	if s.Compared != nil {
		o.Compare, o.Sides = s.Compared.compare, s.Compared.sides
	}
	return o
}

// pageStatus converts a status into the form that the page shows. secrets says that Secrets and encrypted resources are
// served.
func pageStatus(now time.Time, s source.Status, secrets bool) page.Status {
	st := page.Status{File: s.Store, Of: ofStore, Version: source.Version(), Now: now, Bytes: s.Bytes, Error: s.Error}
	if i := s.Snapshot; i != nil {
		st.Of, st.Snapshot = ofSnapshot, &page.Snapshot{TakenAt: i.TakenAt, ClusterID: i.ClusterID,
			ServerVersion: i.ServerVersion, Larder: i.Larder, Encrypted: i.Encrypted, LeftOut: i.LeftOut}
	}
	var mirrored int
	var forbidden []source.Collection
	for _, c := range s.Collections {
		if c.Live != nil {
			st.Of = ofMirror
			mirrored++
		}
		if input.Forbidden(c) {
			forbidden = append(forbidden, c)
		}
	}
	if len(forbidden) > 0 {
		st.Forbidden = input.ForbiddenNote(forbidden, mirrored)
	}
	for _, c := range s.Collections {
		one := pageCollection(now, c)
		switch {
		case !c.Persistent:
			one.Hidden = "kept in memory only, and not served"
		case c.Saved().Confidential() != "" && !secrets:
			one.Hidden = "served with --serve-secrets only"
		case st.Of == ofMirror && c.Live == nil:
			one.Hidden = "left by an earlier sync; nothing mirrors it, and it is not served"
		}
		st.Collections = append(st.Collections, one)
	}
	return st
}

func pageCollection(now time.Time, c source.Collection) page.Collection {
	one := page.Collection{
		Group: c.Group, Version: c.Version, Resource: c.Resource, Namespaced: c.Namespaced,
		Namespace: c.Namespace, LabelSelector: c.LabelSelector, FieldSelector: c.FieldSelector, Scope: input.Scope(c),
		Metadata: c.Representation == "metadata", Objects: c.Objects, ResourceVersion: c.ResourceVersion,
		State: input.StateWithoutNotes(now, c), LastContact: c.LastContact, Well: c.Complete,
	}
	for _, n := range input.Notes(c) {
		one.Notes = append(one.Notes, n.Text)
		one.Well = one.Well && n.Kind == entry.NoteTransform // a transform is intended
	}
	if c.LastContact.IsZero() {
		one.LastContact = c.TakenAt
	}
	if c.Live == nil {
		return one
	}
	l := c.Live
	one.Well = one.Well && l.Source == string(informer.Live) && l.Error == ""
	one.Live = &page.Live{Resumes: l.Resumes, Watches: l.Watches, Lists: l.Lists, Relists: l.Relists,
		Received: l.BytesReceived, Error: input.LiveError(*l), Unguarded: l.Unguarded, IncidentTotals: l.IncidentTotals}
	if input.Forbidden(c) {
		one.Live.Error = "" // the page shows Status.Forbidden instead of this error
	}
	return one
}
