package store_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

func mustKeys(t *testing.T, lines ...string) *seal.Keys {
	t.Helper()
	k, err := seal.ParseKeys([]byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func mustKey(t *testing.T, name string) string {
	t.Helper()
	line, err := seal.GenerateKey(name)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// namesOf returns the encryption keys as String prints them, the current key first: a name and an id, or an id.
func namesOf(k *seal.Keys) []string {
	return strings.Split(strings.TrimPrefix(k.String(), "keys "), ", ")
}

func named(k *seal.Keys, names ...string) bool {
	all := namesOf(k)
	for i, printed := range all {
		name, _, found := strings.Cut(printed, " (")
		if all[i] = name; !found {
			all[i] = ""
		}
	}
	return slices.Equal(all, names)
}

func currentKey(t *testing.T, k seal.KeyProvider) string {
	t.Helper()
	id, err := k.CurrentKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestParseKeys(t *testing.T) {
	first, second := mustKey(t, "prod 2026"), mustKey(t, "")
	for name, text := range map[string]string{
		"plain":    first + second,
		"comments": "# rotated in May\r\n\n" + strings.TrimSpace(first) + " # current\r\n\t" + second,
		"unpadded": strings.TrimRight(first, "=\n") + "\n" + strings.TrimRight(second, "=\n"),
	} {
		k, err := seal.ParseKeys([]byte(text))
		if err != nil || !named(k, "prod 2026", "") {
			t.Errorf("%s: %v, %v", name, k, err)
			continue
		}
		if want := mustKeys(t, first, second); k.String() != want.String() {
			t.Errorf("%s: %v, want %v", name, k, want)
		}
	}
}

func TestParseKeysRefuses(t *testing.T) {
	good := strings.TrimSpace(mustKey(t, ""))
	for name, test := range map[string]struct{ text, want string }{
		"empty":    {"", "no key"},
		"comments": {"# nothing\n\n", "no key"},
		"short":    {good + "\n" + base64.StdEncoding.EncodeToString(make([]byte, 16)), "line 2"},
		"long":     {base64.StdEncoding.EncodeToString(make([]byte, 33)), "33 bytes"},
		"text":     {"a: " + good[:20] + "!!", "line 1"},
		"twice":    {"a:" + good + "\nb:" + good, "line 2"},
		"binary":   {"\xff\x00\x01", "base64"},
		"huge":     {strings.Repeat("A", 1<<20), "bytes"},
	} {
		k, err := seal.ParseKeys([]byte(test.text))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, %v", name, k, err)
			continue
		}
		if strings.Contains(err.Error(), good[:8]) || strings.Contains(err.Error(), "!!") {
			t.Errorf("%s: the error holds a part of a key: %v", name, err)
		}
	}
	for _, name := range []string{"a:b", "a#b", "a\nb"} {
		if line, err := seal.GenerateKey(name); err == nil {
			t.Errorf("a key was named %q: %q", name, line)
		}
	}
}

func FuzzParseKeys(f *testing.F) {
	f.Add([]byte("prod:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY= # a"))
	f.Add([]byte("\n#\n:"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if k, err := seal.ParseKeys(text); (err == nil) != (k != nil && len(namesOf(k)) > 0) {
			t.Fatalf("%v, %v", k, err)
		}
	})
}

// TestKeysAreNotPrinted checks that no formatting verb prints key bytes, alone or inside a struct.
func TestKeysAreNotPrinted(t *testing.T) {
	line := mustKey(t, "prod")
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(strings.TrimPrefix(line, "prod:")))
	if err != nil {
		t.Fatal(err)
	}
	k := mustKeys(t, line)
	all := ""
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
		all += fmt.Sprintf(verb+"\n"+verb+"\n"+verb+"\n"+verb, k, seal.Encryption{Keys: k},
			store.Options{Encryption: &seal.Encryption{Keys: k}}, []*seal.Keys{k})
	}
	for _, secret := range []string{
		string(raw[:8]), fmt.Sprintf("%x", raw[:8]), fmt.Sprintf("%X", raw[:8]), fmt.Sprint(raw[:8])[1:20], line[5:15],
		fmt.Sprintf("%#v", raw[:4])[7:20],
	} {
		if strings.Contains(all, secret) {
			t.Errorf("%q of the key is printed", secret)
		}
	}
	if !strings.Contains(all, "prod ("+currentKey(t, k)+")") {
		t.Errorf("the name is not printed: %s", all)
	}
}

func TestKeysFromFileAndEnv(t *testing.T) {
	line := mustKey(t, "disk")
	path := filepath.Join(t.TempDir(), "keys")
	if _, err := seal.KeysFromFile(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for mode, exposed := range map[os.FileMode]bool{0o400: false, 0o440: false, 0o644: true} {
		_ = os.Remove(path)
		if err := os.WriteFile(path, []byte(line), mode); err != nil {
			t.Fatal(err)
		}
		k, err := seal.KeysFromFile(path)
		if err != nil || !named(k, "disk") {
			t.Errorf("mode %v: %v, %v", mode, k, err)
			continue
		}
		var log logged
		o := store.Options{Encryption: &seal.Encryption{Keys: k}, Logger: log.logger()}
		mustClose(t, mustOpen(t, filepath.Join(t.TempDir(), "store"), o))
		if said := log.count("can read the keys", path) > 0; said != exposed {
			t.Errorf("mode %v: that others can read it is logged: %t", mode, said)
		}
	}
	_ = os.Remove(path)
	if err := os.WriteFile(path, []byte("not a key"), 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.KeysFromFile(path); err == nil || !strings.Contains(err.Error(), path) ||
		strings.Contains(err.Error(), "not a key") {
		t.Errorf("a bad file: %v", err)
	}
	t.Setenv("LARDER_TEST_KEYS", line)
	if k, err := seal.KeysFromEnv("LARDER_TEST_KEYS"); err != nil || !named(k, "disk") {
		t.Errorf("%v, %v", k, err)
	}
	t.Setenv("LARDER_TEST_KEYS", "")
	if _, err := seal.KeysFromEnv("LARDER_TEST_KEYS"); err == nil || !strings.Contains(err.Error(), "LARDER_TEST_KEYS") {
		t.Errorf("no variable: %v", err)
	}
}

func TestKeysWrap(t *testing.T) {
	ctx := t.Context()
	first, second := mustKey(t, ""), mustKey(t, "second")
	old, both, other := mustKeys(t, first), mustKeys(t, second, first), mustKeys(t, mustKey(t, ""))
	data := bytes.Repeat([]byte{7}, 32)
	id, wrapped, err := old.Wrap(ctx, data)
	if err != nil || bytes.Contains(wrapped, data[:8]) {
		t.Fatal(id, err)
	}
	for _, k := range []*seal.Keys{old, both} {
		if got, err := k.Unwrap(ctx, id, wrapped); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%v: %v", k, err)
		}
	}
	if current, err := both.CurrentKey(ctx); err != nil || current == id {
		t.Errorf("the current key is %s, %v", current, err)
	}
	if _, err := other.Unwrap(ctx, id, wrapped); !errors.Is(err, seal.ErrWrongKey) {
		t.Errorf("another key: %v", err)
	}
	if _, err := both.Unwrap(ctx, currentKey(t, both), wrapped); !errors.Is(err, seal.ErrWrongKey) {
		t.Errorf("under the wrong id: %v", err)
	}
	for i := range wrapped {
		bad := bytes.Clone(wrapped)
		bad[i] ^= 1
		if _, err := old.Unwrap(ctx, id, bad); !errors.Is(err, seal.ErrWrongKey) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
}
