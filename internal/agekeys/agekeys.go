// Package agekeys reads recipients and identities for encrypted snapshots, which users give to the command: age keys,
// ssh keys, and passphrases. Its errors do not quote the input.
package agekeys

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"golang.org/x/crypto/ssh"
)

// maxKeyFile is in bytes.
const maxKeyFile = 1 << 20

// ParseRecipients reads recipients, one a line: age1… as age-keygen prints them, or ssh-ed25519 and ssh-rsa public
// keys. It skips empty lines and lines that begin with #.
func ParseRecipients(text string) ([]age.Recipient, error) {
	var out []age.Recipient
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, maxKeyFile)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		r, err := parseRecipient(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		out = append(out, r)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil,
			errors.New("there is no recipient: write one a line, as age-keygen prints them (age1…), or ssh public keys")
	}
	return out, nil
}

func parseRecipient(line string) (age.Recipient, error) {
	if strings.HasPrefix(line, "AGE-SECRET-KEY-") {
		return nil, errors.New("this is a secret key; give its public key, which age-keygen -y prints")
	}
	if strings.HasPrefix(line, "ssh-") {
		r, err := agessh.ParseRecipient(line)
		if err != nil {
			return nil, fmt.Errorf("the ssh public key cannot be used: %w", err)
		}
		return r, nil
	}
	rs, err := age.ParseRecipients(strings.NewReader(line))
	if err != nil || len(rs) != 1 {
		return nil, errors.New("this is no recipient: age1… or an ssh-ed25519 or ssh-rsa public key")
	}
	return rs[0], nil
}

// ReadRecipients reads recipients from the file at path; see ParseRecipients.
func ReadRecipients(path string) ([]age.Recipient, error) {
	text, err := readKeys(path)
	if err != nil {
		return nil, err
	}
	r, err := ParseRecipients(string(text))
	if err != nil {
		return nil, fmt.Errorf("recipients in %s: %w", path, err)
	}
	return r, nil
}

func parseIdentities(text []byte) ([]age.Identity, error) {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("-----BEGIN")) {
		id, err := agessh.ParseIdentity(text)
		var locked *ssh.PassphraseMissingError
		if errors.As(err, &locked) {
			return nil, errors.New("the ssh key has a passphrase; use one without, or an identity of age-keygen")
		}
		if err != nil {
			return nil, errors.New("the ssh private key cannot be used: it must be of ed25519 or RSA")
		}
		return []age.Identity{id}, nil
	}
	ids, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil {
		// age's error is not wrapped, because age quotes the invalid line, which may be a secret key.
		return nil,
			errors.New("there is no identity: AGE-SECRET-KEY-1… one a line, as age-keygen writes them, or an ssh private key")
	}
	return ids, nil
}

// ReadIdentities reads identities from the file at path: AGE-SECRET-KEY-1… one a line, as age-keygen writes them, or
// one ssh private key in PEM without a passphrase.
func ReadIdentities(path string) ([]age.Identity, error) {
	text, err := readKeys(path)
	if err != nil {
		return nil, err
	}
	ids, err := parseIdentities(text)
	if err != nil {
		return nil, fmt.Errorf("identities in %s: %w", path, err)
	}
	return ids, nil
}

func readKeys(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxKeyFile {
		return nil, fmt.Errorf("%s is not a file of keys: it has more than %d bytes", path, maxKeyFile)
	}
	return text, nil
}

// PassphraseRecipient encrypts with a passphrase, from which scrypt derives the key. The derivation takes about a
// second of CPU time. age rejects any further recipient of the file.
func PassphraseRecipient(passphrase string) (age.Recipient, error) {
	if passphrase == "" {
		return nil, errors.New("the passphrase is empty")
	}
	return age.NewScryptRecipient(passphrase)
}

// maxScrypt is the maximum scrypt work factor of a file, as a power of two. A factor of 18 needs 256 MiB of memory, and
// is age's default for encryption.
const maxScrypt = 18

// PassphraseIdentity decrypts files that were encrypted with PassphraseRecipient.
func PassphraseIdentity(passphrase string) (age.Identity, error) {
	if passphrase == "" {
		return nil, errors.New("the passphrase is empty")
	}
	id, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, err
	}
	id.SetMaxWorkFactor(maxScrypt)
	return id, nil
}
