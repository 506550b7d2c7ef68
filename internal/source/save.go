package source

import (
	"github.com/larder-dev/larder/snapshot"
)

type SaveRequest struct {
	Filter    snapshot.Filter    `json:"filter,omitzero"`
	Redaction snapshot.Redaction `json:"redaction,omitzero"`
	// Secrets includes the contents of Secrets. The stream is not encrypted; the client can encrypt the file that it
	// writes.
	Secrets bool `json:"secrets,omitempty"`
	// Larder is the version of the program that writes the snapshot, for the snapshot's header.
	Larder string `json:"-"`
	// LeftOut lists the data that the snapshot omits, with the reasons, one per entry.
	LeftOut []string `json:"-"`
}

func (r SaveRequest) Options() snapshot.SaveOptions {
	return snapshot.SaveOptions{
		Secrets: r.Secrets, Header: snapshot.Header{Larder: r.Larder, LeftOut: r.LeftOut},
		SelectOptions: snapshot.SelectOptions{Filter: r.Filter, Redaction: r.Redaction},
	}
}
