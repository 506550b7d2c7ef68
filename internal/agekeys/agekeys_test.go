package agekeys_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"golang.org/x/crypto/ssh"

	"github.com/larder-dev/larder/internal/agekeys"
)

const text = "a text that is encrypted"

func encrypted(t *testing.T, recipients ...age.Recipient) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := age.Encrypt(&out, recipients...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func decrypt(data []byte, ids ...age.Identity) error {
	_, err := age.Decrypt(bytes.NewReader(data), ids...)
	return err
}

func TestKeys(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sshPublic, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	recipients, err := agekeys.ReadRecipients(write("r",
		"# mine\n\n"+identity.Recipient().String()+"\n"+string(ssh.MarshalAuthorizedKey(sshPublic))))
	if err != nil || len(recipients) != 2 {
		t.Fatal(recipients, err)
	}
	data := encrypted(t, recipients...)
	for _, text := range []string{"# created\n" + identity.String() + "\n", string(pem.EncodeToMemory(block))} {
		ids, err := agekeys.ReadIdentities(write("i", text))
		if err != nil {
			t.Fatal(err)
		}
		if err := decrypt(data, ids...); err != nil {
			t.Error(err)
		}
	}
	locked, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = agekeys.ReadIdentities(write("locked", string(pem.EncodeToMemory(locked))))
	if err == nil || !strings.Contains(err.Error(), "has a passphrase") {
		t.Error(err)
	}
	for _, bad := range []string{"", "# nothing\n", "hunter2", identity.String(), "ssh-ed25519 AAAA"} {
		if _, err := agekeys.ParseRecipients(bad); err == nil || strings.Contains(err.Error(), "hunter2") ||
			strings.Contains(err.Error(), identity.String()) {
			t.Errorf("recipients %q: %v", bad, err)
		}
	}
	for _, bad := range []string{"", "hunter2", identity.Recipient().String(),
		"-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n"} {
		if _, err := agekeys.ReadIdentities(write("bad", bad)); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("identities %q: %v", bad, err)
		}
	}
	if _, err := agekeys.ReadIdentities(write("large", strings.Repeat("#\n", 1<<20))); err == nil {
		t.Error("a file of 2 MiB is taken for keys")
	}
}

func TestPassphrase(t *testing.T) {
	recipient, err := agekeys.PassphraseRecipient("open sesame")
	if err != nil {
		t.Fatal(err)
	}
	recipient.(*age.ScryptRecipient).SetWorkFactor(10) // a low scrypt work factor keeps the test fast
	data := encrypted(t, recipient)
	for phrase, fits := range map[string]bool{"open sesame": true, "open barley": false} {
		id, err := agekeys.PassphraseIdentity(phrase)
		if err != nil {
			t.Fatal(err)
		}
		if err := decrypt(data, id); (err == nil) != fits {
			t.Errorf("%s: %v", phrase, err)
		}
	}
	// A file that demands a high scrypt work factor must be rejected: the derivation of its key would use gigabytes of
	// memory.
	costly := bytes.Replace(data, []byte(" 10\n"), []byte(" 20\n"), 1)
	id, err := agekeys.PassphraseIdentity("open sesame")
	if err != nil {
		t.Fatal(err)
	}
	if err := decrypt(costly, id); err == nil || !strings.Contains(err.Error(), "work factor") {
		t.Error(err)
	}
	for _, f := range []func(string) error{
		func(s string) error { _, err := agekeys.PassphraseRecipient(s); return err },
		func(s string) error { _, err := agekeys.PassphraseIdentity(s); return err },
	} {
		if f("") == nil {
			t.Error("an empty passphrase is taken")
		}
	}
}
