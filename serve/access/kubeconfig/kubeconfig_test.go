package kubeconfig_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/larder-dev/larder/serve/access/internal/testca"
	"github.com/larder-dev/larder/serve/access/kubeconfig"
)

const token = "token-0123456789-0123456789-0123456789"

func config(t testing.TB) kubeconfig.Config {
	return kubeconfig.Config{
		Name: "larder", Server: "https://127.0.0.1:6443", CA: testca.New(t, "ca").PEM(), Token: token, Namespace: "web",
	}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	c := config(t)
	for range 2 { // the first round writes a new file, the second replaces it
		if err := c.Write(path); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("the file has the mode %v, %v", info.Mode(), err)
	}
	loaded, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	client := clientcmd.NewDefaultClientConfig(*loaded, nil)
	rest, err := client.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	if rest.Host != c.Server || rest.BearerToken != token || string(rest.CAData) != string(c.CA) || loaded.CurrentContext != "larder" {
		t.Errorf("got %s, %s", rest.Host, loaded.CurrentContext)
	}
	if namespace, _, err := client.Namespace(); err != nil || namespace != "web" {
		t.Errorf("got the namespace %s, %v", namespace, err)
	}
	if got, err := kubeconfig.Token(path, "larder"); err != nil || got != token {
		t.Errorf("the token that was written is not read: %v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("temporary files stay behind: %v", entries)
	}
}

// TestWriteSkipsEqualContent: a file that already has the content is not rewritten, since the disk may be full.
func TestWriteSkipsEqualContent(t *testing.T) {
	path, c := filepath.Join(t.TempDir(), "kubeconfig"), config(t)
	if err := c.Write(path); err != nil {
		t.Fatal(err)
	}
	first, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(path); err != nil {
		t.Fatal(err)
	}
	if second, err := os.Stat(path); err != nil || !os.SameFile(first, second) {
		t.Errorf("the file was replaced, %v", err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := c.Write(path); err != nil {
		t.Fatal(err)
	}
	if third, err := os.Stat(path); err != nil || third.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("the file that others may read has the mode %v, %v", third.Mode(), err)
	}
}

func TestWriteIsRefused(t *testing.T) {
	for what, change := range map[string]func(*kubeconfig.Config){
		"http":     func(c *kubeconfig.Config) { c.Server = "http://127.0.0.1:8080" },
		"no URL":   func(c *kubeconfig.Config) { c.Server = "127.0.0.1" },
		"no name":  func(c *kubeconfig.Config) { c.Name = "" },
		"no token": func(c *kubeconfig.Config) { c.Token = "" },
	} {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		c := config(t)
		change(&c)
		if err := c.Write(path); err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: there is a file", what)
		}
	}
	if err := config(t).Write(filepath.Join(t.TempDir(), "no", "kubeconfig")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestWriteKeepsOtherKubeconfigs(t *testing.T) {
	for what, text := range map[string]string{
		"another context": "apiVersion: v1\nkind: Config\ncontexts: [{name: prod, context: {cluster: prod, user: me}}]\n",
		"another user":    "apiVersion: v1\nkind: Config\nusers: [{name: me, user: {token: my-token-0123}}]\n",
		"another cluster": "apiVersion: v1\nkind: Config\nclusters: [{name: prod, cluster: {server: 'https://x'}}]\n",
		"something else":  "my-token-0123: [\n",
	} {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := config(t).Write(path); err == nil || strings.Contains(err.Error(), "0123") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != text {
			t.Errorf("%s: it was changed", what)
		}
		if _, err := kubeconfig.Token(path, "larder"); err == nil {
			t.Errorf("%s: has a token", what)
		}
	}
	empty := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := kubeconfig.Token(empty, "larder"); err == nil {
		t.Error("an empty file has a token")
	}
	if err := config(t).Write(empty); err != nil {
		t.Errorf("an empty file: %v", err)
	}
}

func TestWriteThroughALink(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := os.Symlink("real", link); err != nil {
		t.Skip(err)
	}
	if err := config(t).Write(link); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Error("the link was replaced")
	}
	if got, err := kubeconfig.Token(path, "larder"); err != nil || got != token {
		t.Error("the file behind the link was not written")
	}
}

func TestWriteIsAtomic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	c := config(t)
	if err := c.Write(path); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				if got, err := kubeconfig.Token(path, "larder"); err != nil || got != token {
					t.Errorf("read %d bytes, %v", len(got), err)
					return
				}
			}
		}
	})
	for range 20 {
		if err := c.Write(path); err != nil {
			t.Error(err)
		}
	}
	close(done)
	reading.Wait()
}

func TestTokenOfAnOpenFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes")
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if _, err := kubeconfig.Token(path, "larder"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := config(t).Write(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := kubeconfig.Token(path, "larder"); err == nil || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("a token that others have read is used: %v", err)
	}
}

func TestDirectory(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("TMP", tmp) // for Windows
	d, err := kubeconfig.NewDirectory(config(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(d.Kubeconfig())
	if info, err := os.Stat(dir); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has the mode %v, %v", info.Mode(), err)
	}
	if got, err := kubeconfig.Token(d.Kubeconfig(), "larder"); err != nil || got != token {
		t.Error(err)
	}
	base := []string{"PATH=/bin", "KUBECONFIG=/mine", "KUBECACHEDIR=/mine", "KUBERNETES_SERVICE_HOST=10.0.0.1", "KUBECONFIG_OTHER=x"}
	got := d.Environ(base)
	want := []string{"PATH=/bin", "KUBECONFIG_OTHER=x", "KUBECONFIG=" + d.Kubeconfig(), "KUBECACHEDIR=" + filepath.Join(dir, "cache")}
	if !slices.Equal(got, want) || base[1] != "KUBECONFIG=/mine" {
		t.Errorf("got %v", got)
	}
	if err := os.MkdirAll(filepath.Join(dir, "cache", "discovery"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(); err != nil {
		t.Errorf("again: %v", err)
	}
	if _, err := kubeconfig.NewDirectory(kubeconfig.Config{}); err == nil {
		t.Error("a kubeconfig of nothing was written")
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("there is left: %v", left)
	}
}
