package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"aead.dev/minisign"

	"github.com/larder-dev/larder/snapshot/internal/layout"
)

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
