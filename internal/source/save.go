package source

import (
	"github.com/larder-dev/larder/snapshot"
)

// SaveRequest says what of a store is to be in a snapshot of it.
type SaveRequest struct {
	Filter    snapshot.Filter    `json:"filter,omitzero"`
	Redaction snapshot.Redaction `json:"redaction,omitzero"`
	// Secrets has Secrets written that are not redacted. The stream is not encrypted: what is made of it may be.
	Secrets bool `json:"secrets,omitempty"`
	// Larder is the version of the program that saves.
	Larder string `json:"-"`
	// LeftOut says what there is that is not stored, and why, one an entry.
	LeftOut []string `json:"-"`
}

// Options are those of package snapshot.
func (r SaveRequest) Options() snapshot.SaveOptions {
	return snapshot.SaveOptions{
		Secrets: r.Secrets, Header: snapshot.Header{Larder: r.Larder, LeftOut: r.LeftOut},
		SelectOptions: snapshot.SelectOptions{Filter: r.Filter, Redaction: r.Redaction},
	}
}
