package snapshot

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"aead.dev/minisign"

	"github.com/larder-dev/larder/internal/printable"
	"github.com/larder-dev/larder/snapshot/internal/layout"
)

// open reads prologue, footer and catalog, and verifies the signature if keys are given.
func (f *File) open(keys []minisign.PublicKey) error {
	data := make([]byte, min(f.size, int64(layout.MaxPrologue)))
	if err := f.read(data, 0, -1); err != nil {
		return err
	}
	begin, size, err := layout.ParsePrologue(data)
	switch {
	case errors.Is(err, layout.ErrMagic):
		return ErrNotSnapshot
	case err != nil:
		return f.damage(0, -1, err.Error())
	case begin.Version != layout.Version:
		return fmt.Errorf("%w: it is in format %d, written by Larder %s, and this program reads format %d: upgrade Larder",
			ErrNewerFormat, begin.Version, printable.Text(begin.Larder), layout.Version)
	}
	f.manifest.Format = begin.Version
	foot, err := f.footer(begin.ID, int64(size))
	if err != nil {
		return err
	}
	text := make([]byte, f.size-int64(layout.FooterSize)-int64(foot.Catalog))
	if err := f.read(text, int64(foot.Catalog), -1); err != nil {
		return err
	}
	text, signature := text[:foot.Length], text[foot.Length:]
	if f.manifest.Digest = sha256.Sum256(text); f.manifest.Digest != foot.Digest {
		return f.damage(int64(foot.Catalog), -1, "its catalog is not what was written (SHA-256)")
	}
	var c catalog
	if err := json.Unmarshal(text, &c); err != nil {
		return f.damage(int64(foot.Catalog), -1, "its catalog cannot be read: "+textError(err))
	}
	f.manifest.Header = c.Header
	end, err := f.collections(c.Collections, int64(size), int64(foot.Catalog))
	if err == nil {
		err = f.documentsAt(c.Documents, end, int64(foot.Catalog))
	}
	if err != nil {
		return f.damage(int64(foot.Catalog), -1, "its catalog cannot be read: "+err.Error())
	}
	return f.signed(signature, keys)
}

// footer reads the footer of a file with that id, whose prologue has size bytes.
func (f *File) footer(id layout.ID, size int64) (layout.Footer, error) {
	cut := &DamageError{Block: -1, Offset: f.size,
		Reason: "its end is missing: it was cut short, or is still being written"}
	at := f.size - int64(layout.FooterSize)
	if at < size {
		return layout.Footer{}, cut
	}
	data := make([]byte, layout.FooterSize)
	if err := f.read(data, at, -1); err != nil {
		return layout.Footer{}, err
	}
	foot, ok := layout.ParseFooter(data)
	if !ok || foot.ID != id || foot.Length > layout.MaxPart || foot.Catalog > uint64(at) ||
		int64(foot.Catalog) < size {
		return foot, cut
	}
	if signature := at - int64(foot.Catalog) - int64(foot.Length); signature < 0 || signature > maxSignature {
		return foot, cut
	}
	return foot, nil
}

// collections parses the collections of the catalog, which lie one after the other from begin, and before end. It
// returns where the last one ends.
func (f *File) collections(all []collectionText, begin, end int64) (int64, error) {
	blocks := 0
	for _, t := range all {
		c, err := t.collection()
		if err != nil {
			return 0, errors.New(textError(err))
		}
		p := part{begin: begin, index: begin + t.Stored, end: begin + t.Stored + int64(t.Index),
			digest: string(t.IndexDigest), number: blocks}
		id := c.Identity.ID()
		if _, twice := f.byID[id]; twice {
			return 0, fmt.Errorf("%s is there twice", c.Identity)
		}
		if t.Stored > end-begin || p.end > end {
			return 0, fmt.Errorf("%s is not within the file", c.Identity)
		}
		f.byID[id] = len(f.parts)
		f.parts = append(f.parts, p)
		f.manifest.Collections = append(f.manifest.Collections, c)
		begin, blocks = p.end, blocks+c.Blocks
	}
	return begin, nil
}

// documentsAt parses the documents of the catalog, which lie one after the other from begin to end.
func (f *File) documentsAt(all []documentText, begin, end int64) error {
	for _, t := range all {
		_, twice := f.documents[t.Name]
		switch {
		case t.Name == "" || twice:
			return errors.New("a document has no name, or one that another has")
		case !t.sizes() || int64(t.Stored) > end-begin:
			return fmt.Errorf("the document %s is not within the file", printable.Text(t.Name))
		}
		f.documents[t.Name] = document{begin: begin, size: t.Size, stored: t.Stored, digest: string(t.Digest)}
		f.manifest.Documents = append(f.manifest.Documents, t.Name)
		begin += int64(t.Stored)
	}
	if begin != end {
		return errors.New("there is something in the file that it does not name")
	}
	return nil
}

// textError returns the text of err without the contents that errors of encoding/json may quote.
func textError(err error) string {
	if errors.Is(err, errCounts) {
		return err.Error()
	}
	return fmt.Sprintf("malformed (%T)", err)
}
