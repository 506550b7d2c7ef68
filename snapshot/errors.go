package snapshot

import (
	"errors"
	"fmt"
	"strings"

	"github.com/larder-dev/larder/internal/base"
)

// Errors of opening a snapshot.
var (
	// ErrNotSnapshot: the file is not a snapshot.
	ErrNotSnapshot = errors.New("this is not a snapshot of Larder")
	// ErrNewerFormat: a newer Larder wrote the file, in a format that this program does not read.
	ErrNewerFormat = errors.New("the snapshot's format is newer than this program")
	// ErrEncrypted: the file is encrypted, and no identity was given.
	ErrEncrypted = errors.New("the snapshot is encrypted")
	// ErrIdentity: none of the identities decrypts the file, or the passphrase is wrong.
	ErrIdentity = errors.New("the snapshot cannot be decrypted with what was given")
)

// Errors of reading an open snapshot.
var (
	// ErrDamaged: the bytes of the file are not the bytes that were written; see DamageError.
	ErrDamaged = errors.New("the snapshot is damaged")
	// ErrNoCollection: the snapshot has no such collection.
	ErrNoCollection = errors.New("no such collection in the snapshot")
	// ErrUndecodable: the object is undamaged, but its type is not known to this program.
	ErrUndecodable = errors.New("an object of a type that this program does not know")
)

// Errors of writing a snapshot.
var (
	// ErrOrder: the keys of a Source are not in ascending order, or a collection occurs twice.
	ErrOrder = errors.New("out of order")
	// ErrTooLarge: a record or a description is larger than the format allows, or decoding an object would take memory out
	// of proportion to the size of the file.
	ErrTooLarge = errors.New("too large for a snapshot")
)

// DamageError locates damage in a snapshot. It wraps ErrDamaged.
type DamageError struct {
	// Block is the number of the block in the file, from 0, or -1 if the damage is not in a block. Offset is the start of
	// the damaged part, in bytes of the decrypted file.
	Block  int
	Offset int64
	// Collection, First and Last name the collection and the first and last keys of the damaged block; empty if unknown.
	Collection  string
	First, Last string
	Reason      string
	// Err is the error of the failed read, if reading failed without other damage; may be nil.
	Err error
}

func (e *DamageError) Error() string {
	var b strings.Builder
	b.WriteString("the snapshot is damaged")
	if e.Block >= 0 {
		fmt.Fprintf(&b, " in block %d", e.Block)
	}
	fmt.Fprintf(&b, " at offset %d", e.Offset)
	if e.Collection != "" {
		fmt.Fprintf(&b, ", %s", base.PrintableText(e.Collection))
	}
	if e.First != "" || e.Last != "" {
		fmt.Fprintf(&b, ", keys %q to %q", e.First, e.Last)
	}
	b.WriteString(": " + e.Reason)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns ErrDamaged, and the error of the failed read if there is one.
func (e *DamageError) Unwrap() []error {
	if e.Err != nil {
		return []error{ErrDamaged, e.Err}
	}
	return []error{ErrDamaged}
}

// MissingError lists the damaged blocks of a collection. It wraps ErrDamaged.
type MissingError struct {
	Collection string
	Damage     []*DamageError
	// Objects is the number of missing objects. If Exact is false it is a lower bound: the index of the collection, which
	// lists its blocks, is damaged.
	Objects int
	Exact   bool
}

const maxDamage = 20

func (e *MissingError) Error() string {
	var b strings.Builder
	least, objects := "", "objects are"
	if !e.Exact {
		least = "at least "
	}
	if e.Objects == 1 {
		objects = "object is"
	}
	fmt.Fprintf(&b, "%s%d %s missing from %s:", least, e.Objects, objects, base.PrintableText(e.Collection))
	for i, d := range e.Damage {
		if i == maxDamage {
			fmt.Fprintf(&b, "\n  … and %d more blocks", len(e.Damage)-i)
			break
		}
		b.WriteString("\n  " + d.Error())
	}
	return b.String()
}

// Unwrap returns the DamageErrors, which wrap ErrDamaged.
func (e *MissingError) Unwrap() []error {
	all := make([]error, len(e.Damage))
	for i, d := range e.Damage {
		all[i] = d
	}
	return all
}

// add records a DamageError, and returns any other error. objects is the number of lost objects; 0 for a damaged index.
func (e *MissingError) add(err error, objects int) error {
	var d *DamageError
	if !errors.As(err, &d) {
		return err
	}
	e.Exact = objects > 0 && (e.Exact || len(e.Damage) == 0)
	e.Damage, e.Objects = append(e.Damage, d), e.Objects+max(objects, 1)
	return nil
}

func (e *MissingError) errOrNil() error {
	if len(e.Damage) == 0 {
		return nil
	}
	return e
}
