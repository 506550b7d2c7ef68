package source

import (
	"github.com/larder-dev/larder/snapshot"
)

// SaveRequest selects the contents of a snapshot.
type SaveRequest struct {
	Filter    snapshot.Filter    `json:"filter,omitzero"`
	Redaction snapshot.Redaction `json:"redaction,omitzero"`
	// Secrets includes Secrets that are not redacted. The stream is not encrypted, but a file made from it may be.
	Secrets bool `json:"secrets,omitempty"`
	// Larder is the version of the program that writes the snapshot.
	Larder string `json:"-"`
	// LeftOut lists the omitted data with the reasons, one per entry.
	LeftOut []string `json:"-"`
}

// Options returns the options for package snapshot.
func (r SaveRequest) Options() snapshot.SaveOptions {
	return snapshot.SaveOptions{
		Secrets: r.Secrets, Header: snapshot.Header{Larder: r.Larder, LeftOut: r.LeftOut},
		SelectOptions: snapshot.SelectOptions{Filter: r.Filter, Redaction: r.Redaction},
	}
}
