package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"aead.dev/minisign"
	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/internal/layout"
)

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
			ErrNewerFormat, begin.Version, base.PrintableText(begin.Larder), layout.Version)
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
	if err := f.signed(text, signature, keys); err != nil {
		return err
	}
	if err := f.catalog(text, int64(size), int64(foot.Catalog)); err != nil {
		return f.damage(int64(foot.Catalog), -1, "its catalog cannot be read: "+textError(err))
	}
	return nil
}

// catalog parses the JSON of the catalog, one description at a time. The described collections and documents must fill
// the file from begin to end without gaps.
func (f *File) catalog(text []byte, begin, end int64) error {
	d := catalogDecoder{Decoder: json.NewDecoder(bytes.NewReader(text))}
	at, seen := begin, map[string]bool{}
	err := d.object(func(name string) error {
		if seen[name] {
			return fmt.Errorf("%w: a field is there twice", errCatalog)
		}
		seen[name] = true
		switch name {
		case "header":
			return d.value(&f.manifest.Header, maxHeader)
		case "collections":
			if seen["documents"] {
				return fmt.Errorf("%w: documents before collections", errCatalog)
			}
			return d.list(func() (err error) {
				var t collectionText
				if err = d.value(&t, maxDescription); err == nil {
					at, err = f.collection(t, at, end)
				}
				return err
			})
		case "documents":
			return d.list(func() (err error) {
				var t documentText
				if err = d.value(&t, maxDescription); err == nil {
					at, err = f.documentAt(t, at, end)
				}
				return err
			})
		}
		return d.value(nil, len(text))
	})
	if err == nil && at != end {
		err = fmt.Errorf("%w: there is something in the file that it does not name", errCatalog)
	}
	return err
}

// errCatalog begins errors about the catalog that do not quote it, so that their text is safe to print.
var errCatalog = errors.New("the catalog")

// catalogDecoder decodes the JSON of a catalog. It holds only one description in memory at a time.
type catalogDecoder struct {
	*json.Decoder
	raw json.RawMessage
}

// object calls field for each member of a JSON object, to read the member's value. No data may follow the object.
func (d *catalogDecoder) object(field func(name string) error) error {
	if err := d.token(json.Delim('{')); err != nil {
		return err
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string) // the decoder checks that a member's name is a string
		if err := field(name); err != nil {
			return err
		}
	}
	if err := d.token(json.Delim('}')); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows it", errCatalog)
	}
	return nil
}

// list calls item for each element of a JSON array; item reads the element. null counts as an empty array.
func (d *catalogDecoder) list(item func() error) error {
	if t, err := d.Token(); err != nil || t == nil {
		return err
	} else if t != json.Delim('[') {
		return fmt.Errorf("%w: a list is something else", errCatalog)
	}
	for n := 0; d.More(); n++ {
		if n == maxDescribed {
			return fmt.Errorf("%w: it has more than the %d collections or documents that are allowed", errCatalog, n)
		}
		if err := item(); err != nil {
			return err
		}
	}
	return d.token(json.Delim(']'))
}

func (d *catalogDecoder) token(want json.Delim) error {
	t, err := d.Token()
	if err == nil && t != want {
		err = fmt.Errorf("%w: it is no object", errCatalog)
	}
	return err
}

// value reads a JSON value of at most atMost bytes into to; if to is nil, it skips the value.
func (d *catalogDecoder) value(to any, atMost int) error {
	if err := d.Decode(&d.raw); err != nil {
		return err
	}
	if len(d.raw) > atMost {
		return fmt.Errorf("%w: a description has %d bytes, and %d are allowed", errCatalog, len(d.raw), atMost)
	}
	if to == nil {
		return nil
	}
	return json.Unmarshal(d.raw, to)
}

// footer reads the footer at the end of the file. Its id must be the prologue's, and its offsets must fit the file.
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

// collection adds a collection of the catalog to f, and returns the offset of the collection's end. Its blocks begin at
// offset begin, and its index must not exceed offset end.
func (f *File) collection(t collectionText, begin, end int64) (int64, error) {
	c, err := t.collection()
	if err != nil {
		return 0, err
	}
	p := part{begin: begin, index: begin + t.Stored, end: begin + t.Stored + int64(t.Index),
		digest: string(t.IndexDigest), number: f.blocks}
	id := c.Identity.ID()
	if _, twice := f.byID[id]; twice {
		return 0, fmt.Errorf("%w: %s is there twice", errCatalog, c.Identity)
	}
	if t.Stored > end-begin || p.end > end {
		return 0, fmt.Errorf("%w: %s is not within the file", errCatalog, c.Identity)
	}
	f.byID[id] = len(f.parts)
	f.parts = append(f.parts, p)
	f.manifest.Collections = append(f.manifest.Collections, c)
	f.blocks += c.Blocks
	return p.end, nil
}

// documentAt adds a document of the catalog, which must end at or before offset end, and returns the offset of its end.
func (f *File) documentAt(t documentText, begin, end int64) (int64, error) {
	_, twice := f.documents[t.Name]
	switch {
	case t.Name == "" || twice:
		return 0, fmt.Errorf("%w: a document has no name, or one that another has", errCatalog)
	case !t.sizes() || int64(t.Stored) > end-begin:
		return 0, fmt.Errorf("%w: the document %s is not within the file", errCatalog, base.PrintableText(t.Name))
	}
	f.documents[t.Name] = document{begin: begin, size: t.Size, stored: t.Stored, digest: string(t.Digest)}
	f.manifest.Documents = append(f.manifest.Documents, t.Name)
	return begin + int64(t.Stored), nil
}

// textError returns the text of err without the parts that errors of encoding/json may quote from the file.
func textError(err error) string {
	if errors.Is(err, errCounts) || errors.Is(err, errCatalog) {
		return err.Error()
	}
	return fmt.Sprintf("malformed (%T)", err)
}

const ageMagic = "age-encryption.org/"

// decryptAt returns a reader of the decrypted contents of r if r begins like an age file, and otherwise r itself.
func decryptAt(
	r io.ReaderAt, size int64, identities []age.Identity,
) (plain io.ReaderAt, plainSize int64, encrypted bool, err error) {
	begin := make([]byte, min(size, int64(len(armor.Header))))
	if n, err := r.ReadAt(begin, 0); n < len(begin) {
		return nil, 0, false, fmt.Errorf("read the snapshot: %w", err)
	}
	switch {
	case bytes.HasPrefix(begin, []byte(armor.Header)):
		return nil, 0, true, fmt.Errorf("it is an age file in PEM armor; take that off with age --decrypt: %w",
			ErrNotSnapshot)
	case !bytes.HasPrefix(begin, []byte(ageMagic)):
		return r, size, false, nil
	case len(identities) == 0:
		return nil, 0, true, ErrEncrypted
	}
	plain, plainSize, err = age.DecryptReaderAt(r, size, identities...)
	var none *age.NoIdentityMatchError
	switch {
	case err == nil:
	case errors.As(err, &none) || errors.Is(err, age.ErrIncorrectIdentity):
		err = fmt.Errorf("%w: %w", ErrIdentity, err)
	default:
		err = &DamageError{Block: -1, Reason: "its encryption cannot be read", Err: err}
	}
	return plain, plainSize, true, err
}

// Errors of the signature of a snapshot.
var (
	// ErrUnsigned: the snapshot has no signature, but the caller requires one.
	ErrUnsigned = errors.New("the snapshot is not signed")
	// ErrSignature: the signature was made by none of the given keys, or belongs to another snapshot.
	ErrSignature = errors.New("the snapshot is not signed by whom it should be")
)

// maxSignature is the maximum size of a signature in bytes. A minisign signature with its comments has about 300 bytes.
const maxSignature = 4 << 10

// statement returns the text that is signed. It includes the digest, which covers the whole contents.
func statement(h Header, digest layout.Digest) []byte {
	return fmt.Appendf(nil, "larder snapshot\ncluster %s\ntaken %s\ndigest sha256:%x\n", h.ClusterID,
		h.TakenAt.Format(time.RFC3339Nano), digest)
}

func sign(key *minisign.PrivateKey, h Header, digest layout.Digest) []byte {
	return minisign.SignWithComments(*key, statement(h, digest),
		"a snapshot of Larder, taken "+h.TakenAt.UTC().Format(time.RFC3339), fmt.Sprintf("key %016X", key.ID()))
}

// signed reads the signature of the file, and verifies it if keys are given. Before the verification it parses only the
// two fields of the header that are part of the signed text.
func (f *File) signed(catalog, text []byte, keys []minisign.PublicKey) error {
	var s minisign.Signature
	known := len(text) > 0 && s.UnmarshalText(text) == nil
	if known {
		f.manifest.SignatureKey = fmt.Sprintf("%016X", s.KeyID)
	}
	switch {
	case len(keys) == 0:
		return nil
	case len(text) == 0:
		return ErrUnsigned
	case !known:
		return fmt.Errorf("%w: its signature is malformed", ErrSignature)
	}
	var about struct {
		Header struct {
			ClusterID string    `json:"clusterID"`
			TakenAt   time.Time `json:"takenAt"`
		} `json:"header"`
	}
	if err := json.Unmarshal(catalog, &about); err != nil {
		return fmt.Errorf("%w: its header cannot be read", ErrSignature)
	}
	said := statement(Header{ClusterID: about.Header.ClusterID, TakenAt: about.Header.TakenAt}, f.manifest.Digest)
	if slices.ContainsFunc(keys, func(k minisign.PublicKey) bool { return minisign.Verify(k, said, text) }) {
		return nil
	}
	if slices.ContainsFunc(keys, func(k minisign.PublicKey) bool { return k.ID() == s.KeyID }) {
		return fmt.Errorf("%w: its signature is of something else", ErrSignature)
	}
	return fmt.Errorf("%w: its signature is of the key %016X, and expected is %s", ErrSignature, s.KeyID, keyIDs(keys))
}

func keyIDs(keys []minisign.PublicKey) string {
	text := ""
	for i, k := range keys {
		if i > 0 {
			text += " or "
		}
		text += fmt.Sprintf("%016X", k.ID())
	}
	return text
}

// Is reports whether path is a regular file that begins like a snapshot or an age file. Open may still fail.
func Is(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() { // only a regular file is opened: opening a pipe can block forever
		return false, err
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // the file was opened for reading, so an error of Close does not matter
	begin := make([]byte, len(armor.Header))
	n, err := io.ReadFull(f, begin)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	begin = begin[:n]
	for _, known := range []string{layout.Magic, ageMagic, armor.Header} {
		if bytes.HasPrefix(begin, []byte(known)) {
			return true, nil
		}
	}
	return false, nil
}
