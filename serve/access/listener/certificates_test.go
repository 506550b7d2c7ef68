package listener_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/larder-dev/larder/serve/access/internal/testca"
	"github.com/larder-dev/larder/serve/access/listener"
)

func generate(t testing.TB, dir string, hosts ...string) *listener.Certificates {
	t.Helper()
	log := logr.Discard()
	c, err := listener.Generate(listener.Options{Dir: dir, Hosts: hosts, Logger: &log})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func shown(t testing.TB, c *listener.Certificates) *x509.Certificate {
	t.Helper()
	pair, err := c.Config(nil).GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

// trusts fails the test unless a client that trusts the authority ca accepts the certificate c for all hosts.
func trusts(t testing.TB, ca []byte, c *x509.Certificate, hosts ...string) {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatal("no CA")
	}
	for _, h := range hosts {
		if _, err := c.Verify(x509.VerifyOptions{Roots: pool, DNSName: h}); err != nil {
			t.Errorf("%s: %v", h, err)
		}
	}
}

func TestGenerate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "tls")
	c := generate(t, dir, "10.0.0.7", "node-1", "node-1.example.com", "0.0.0.0", "::", "fd00::1", "")
	leaf := shown(t, c)
	trusts(t, c.CA(), leaf, "localhost", "127.0.0.1", "::1", "10.0.0.7", "node-1", "node-1.example.com", "fd00::1")
	if leaf.VerifyHostname("10.0.0.8") == nil || leaf.VerifyHostname("0.0.0.0") == nil || leaf.IsCA {
		t.Error("the certificate is for more than it should be")
	}
	key, ok := leaf.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		t.Errorf("the key is %T", leaf.PublicKey)
	}
	if left := time.Until(leaf.NotAfter); left > 7*24*time.Hour {
		t.Errorf("the certificate lasts for %v", left)
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has the mode %v", info.Mode())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		if info, err := e.Info(); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
			t.Errorf("%s has the mode %v", e.Name(), info.Mode())
		}
	}
	if !slices.Equal(names, []string{"ca.crt", "ca.pem", "serving.pem"}) {
		t.Errorf("the directory has %v", names)
	}
	if public, err := os.ReadFile(filepath.Join(dir, "ca.crt")); err != nil || string(public) != string(c.CA()) {
		t.Error("ca.crt is not the CA")
	}
}

func TestGenerateReuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	first := generate(t, dir, "a.example.com")
	again := generate(t, dir)
	if string(first.CA()) != string(again.CA()) || !shown(t, first).Equal(shown(t, again)) {
		t.Error("the second start has other certificates")
	}
	more := generate(t, dir, "b.example.com")
	if string(first.CA()) != string(more.CA()) {
		t.Error("another host made another CA")
	}
	trusts(t, first.CA(), shown(t, more), "b.example.com", "localhost")
}

// toThePresent advances the fake clock of synctest, which starts in 2000, to 2027.
func toThePresent() { time.Sleep(time.Until(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))) }

func TestGenerateRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toThePresent()
		dir := filepath.Join(t.TempDir(), "tls")
		c := generate(t, dir, "a.example.com")
		first := shown(t, c)
		time.Sleep(4 * 24 * time.Hour)
		if !shown(t, c).Equal(first) || !shown(t, generate(t, dir)).Equal(first) {
			t.Error("renewed too early")
		}
		time.Sleep(24 * time.Hour)
		second := shown(t, c)
		if second.Equal(first) {
			t.Error("not renewed while it runs")
		}
		trusts(t, c.CA(), second, "a.example.com")
		time.Sleep(5 * 24 * time.Hour)
		if third := shown(t, generate(t, dir, "a.example.com")); third.Equal(second) {
			t.Error("not renewed at the next start")
		}
		// The authority is kept for ten years, until it expires soon.
		time.Sleep(9 * 365 * 24 * time.Hour)
		if string(generate(t, dir).CA()) != string(c.CA()) {
			t.Error("another authority after nine years")
		}
		time.Sleep(340 * 24 * time.Hour)
		last := generate(t, dir)
		if string(last.CA()) == string(c.CA()) {
			t.Error("the same authority though it ends soon")
		}
		trusts(t, last.CA(), shown(t, last), "localhost")
	})
}

func TestGenerateCannotRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toThePresent()
		dir := filepath.Join(t.TempDir(), "tls")
		c := generate(t, dir)
		first := shown(t, c)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(6 * 24 * time.Hour)
			now := shown(t, c)
			if now.Equal(first) {
				t.Error("the same certificate, which ends soon")
			}
			trusts(t, c.CA(), now, "localhost")
			first = now
		}
	})
}

// TestGenerateWithAWrongClock checks that certificates from a device without a battery for its clock, which starts in
// 1970, remain valid when the clock is set. The clock of synctest starts in 2000.
func TestGenerateWithAWrongClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "tls")
		c := generate(t, dir)
		trusts(t, c.CA(), shown(t, c), "localhost")
		time.Sleep(time.Until(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)))
		trusts(t, c.CA(), shown(t, c), "localhost")
		if string(generate(t, dir).CA()) != string(c.CA()) {
			t.Error("another authority once the clock was right")
		}
	})
}

func TestGenerateAtTheSameTime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	var all sync.WaitGroup
	cas := make([]string, 20)
	for i := range cas {
		all.Go(func() {
			c := generate(t, dir)
			cas[i] = string(c.CA())
			trusts(t, c.CA(), shown(t, c), "localhost")
		})
	}
	all.Wait()
	if slices.Sort(cas); cas[0] != cas[len(cas)-1] {
		t.Error("there are several authorities")
	}
}

func TestGenerateIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes")
	}
	log := logr.Discard()
	try := func(dir string) error {
		_, err := listener.Generate(listener.Options{Dir: dir, Logger: &log})
		return err
	}
	open := t.TempDir()
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := try(open); err == nil || !strings.Contains(err.Error(), "chmod go= "+open) {
		t.Errorf("a directory that others may enter: %v", err)
	}
	for _, name := range []string{"ca.pem", "ca.crt"} {
		dir := filepath.Join(t.TempDir(), "tls")
		generate(t, dir)
		if err := os.Chmod(filepath.Join(dir, name), 0o640); err != nil {
			t.Fatal(err)
		}
		if err := try(dir); err == nil || !strings.Contains(err.Error(), "chmod go=") {
			t.Errorf("%s that others may read: %v", name, err)
		}
	}
	dir := filepath.Join(t.TempDir(), "tls")
	ca := generate(t, dir).CA()
	serving, err := os.ReadFile(filepath.Join(dir, "serving.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "x", string(ca), string(serving)} {
		if err := os.WriteFile(filepath.Join(dir, "ca.pem"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := try(dir); err == nil {
			t.Errorf("an authority of %d bytes was taken", len(text))
		}
		if now, err := os.ReadFile(filepath.Join(dir, "ca.pem")); err != nil || string(now) != text {
			t.Error("the damaged file was replaced")
		}
	}
	// A damaged serving certificate is replaced, since clients trust only its authority.
	dir = filepath.Join(t.TempDir(), "tls")
	generate(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "serving.pem"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := generate(t, dir)
	trusts(t, again.CA(), shown(t, again), "localhost")
}

func writePair(t testing.TB, certFile, keyFile string, pair tls.Certificate) {
	t.Helper()
	for path, data := range map[string][]byte{certFile: testca.CertificatePEM(pair), keyFile: testca.KeyPEM(t, pair)} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := testca.New(t, "ca")
		dir := t.TempDir()
		certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
		first, second := ca.Server("first"), ca.Server("second")
		writePair(t, certFile, keyFile, first)
		var lines []string
		log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
		c, err := listener.Load(certFile, keyFile, log)
		if err != nil {
			t.Fatal(err)
		}
		shows := func(want string) {
			t.Helper()
			if got := shown(t, c).Subject.CommonName; got != want {
				t.Errorf("shows %s, want %s", got, want)
			}
		}
		shows("first")
		if c.CA() != nil {
			t.Error("somebody else's authority is told")
		}
		// Write the new certificate before its key, so that the pair does not match for a while.
		if err := os.WriteFile(certFile, testca.CertificatePEM(second), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		shows("first")
		if len(lines) != 0 {
			t.Errorf("a pair that is being replaced is logged: %v", lines)
		}
		time.Sleep(time.Second)
		shows("first")
		if len(lines) != 1 || !strings.Contains(lines[0], "Keeping") || strings.Contains(lines[0], "PRIVATE") {
			t.Errorf("logged %v", lines)
		}
		writePair(t, certFile, keyFile, second)
		shows("first")
		time.Sleep(time.Second)
		shows("second")
	})
}

func TestLoadSelfSigned(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	own := new(testca.Authority).Sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "own"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
	writePair(t, certFile, keyFile, own)
	c, err := listener.Load(certFile, keyFile, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	trusts(t, c.CA(), shown(t, c), "127.0.0.1")
}

func TestLoadIsRefused(t *testing.T) {
	ca := testca.New(t, "ca")
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	if _, err := listener.Load(certFile, keyFile, logr.Discard()); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	writePair(t, certFile, keyFile, ca.Server("first"))
	secret := testca.KeyPEM(t, ca.Server("second"))
	if err := os.WriteFile(keyFile, secret, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := listener.Load(certFile, keyFile, logr.Discard())
	if err == nil || strings.Contains(fmt.Sprint(err), string(secret[40:60])) {
		t.Errorf("a key of another certificate: %v", err)
	}
}
