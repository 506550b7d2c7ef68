package e2e

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/larder-dev/larder/test/e2e/controlplane"
	"github.com/larder-dev/larder/test/e2e/playground"
)

var updateDocs = flag.Bool("docs.update", false, "write what the commands of the pages print into them")

var pages = []string{"README.md", "docs/command-line.md", "docs/edge-agent.md", "docs/large-cluster.md",
	"docs/offline-analyst.md", "docs/serve.md", "docs/bootstrap.md"}

// TestDocs runs every command of the README and of the walkthroughs on a playground, each page in an empty directory.
// The output must equal the page, apart from figures, ages and ids. To update the pages:
//
//	go -C test/e2e test -run '^TestDocs$' -docs.update .
func TestDocs(t *testing.T) {
	t.Parallel()
	bin := larderInPath(t)
	binaries, err := controlplane.Binaries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range pages {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("..", "..", name)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			steps, err := parsePage(string(text))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			restore, err := onFreePorts(steps)
			if err != nil {
				t.Fatal(err)
			}
			cp := ownControlPlane(t)
			if _, err := playground.Fill(t.Context(), cp.Config(controlplane.Writer)); err != nil {
				t.Fatal(err)
			}
			sh := newShell(t, cp, bin, binaries)
			switch name {
			case "README.md":
				sh.inTheClone("make")
			case "docs/bootstrap.md":
				sh.withServers()
			}
			printed := make([][]string, len(steps))
			for i, s := range steps {
				followed := i+1 < len(steps) && strings.HasPrefix(steps[i+1].command, "echo $?")
				for _, line := range sh.do(name, s, followed) {
					printed[i] = append(printed[i], restore(line))
				}
			}
			if *updateDocs {
				if err := os.WriteFile(path, []byte(update(string(text), steps, printed)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func larderInPath(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	buildLarder(t, dir)
	if err := os.Symlink("larder", filepath.Join(dir, "kubectl-larder")); err != nil {
		t.Fatal(err)
	}
	return dir
}

type shell struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	dir string
	n   int

	mu      sync.Mutex
	printed []string      // output lines that no command has received; mu guards printed
	more    chan struct{} // receives a value for new output, and at the end of the output
}

func newShell(t *testing.T, cp *controlplane.ControlPlane, path ...string) *shell {
	t.Helper()
	s := &shell{t: t, dir: t.TempDir(), more: make(chan struct{}, 1)}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	writeKubeconfig(t, cp, kubeconfig)
	s.cmd = exec.Command("bash", "--norc", "-m")
	s.cmd.Dir = s.dir
	s.cmd.Env = append(os.Environ(), "PATH="+strings.Join(append(path, os.Getenv("PATH")), ":"), "KUBECONFIG="+kubeconfig,
		"HOME="+s.dir, "LC_ALL=C.UTF-8")
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stdout, s.cmd.Stderr = w, w
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var reading sync.WaitGroup
	reading.Go(func() { s.read(out) })
	t.Cleanup(func() {
		_, _ = io.WriteString(s.in, "\nkill -KILL $(jobs -p) 2>/dev/null; wait; exit 0\n")
		_ = s.in.Close()
		_ = s.cmd.Wait()
		reading.Wait()
		_ = out.Close()
	})
	s.do("", step{command: "true"}, false) // reads and drops bash's complaint about the missing terminal
	return s
}

// inTheClone makes a command run as in a clone of the repository, with the user's build cache.
func (s *shell) inTheClone(command string) {
	s.t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		s.t.Fatal(err)
	}
	s.do("", step{command: fmt.Sprintf("%s() (cd '%s' && HOME='%s' command %[1]s \"$@\")", command, root,
		os.Getenv("HOME"))}, false)
}

func writeKubeconfig(t *testing.T, cp *controlplane.ControlPlane, path string) {
	t.Helper()
	cfg := cp.Config("")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"e2e": {Server: cfg.Host, CertificateAuthorityData: cfg.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"e2e": {Token: cfg.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"e2e": {Cluster: "e2e", AuthInfo: "e2e"}},
		CurrentContext: "e2e",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
}

func (s *shell) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		s.mu.Lock()
		s.printed = append(s.printed, lines.Text())
		s.mu.Unlock()
		select {
		case s.more <- struct{}{}:
		default:
		}
	}
}

func (s *shell) do(page string, st step, mayFail bool) []string {
	s.t.Helper()
	where := fmt.Sprintf("%s:%d", page, st.line)
	s.n++
	done := fmt.Sprintf("--done %d ", s.n)
	command := st.command
	if st.interrupted {
		command += " &\nstarted=$!"
	}
	s.type_(command + "\ncode=$?; echo; echo '" + done + "'$code; (exit $code)\n")
	printed, code := s.until(where, st.command, done)
	if st.interrupted {
		printed = append(printed, s.interrupt(where, st)...)
		code = "0"
	}
	if code != "0" && !mayFail {
		s.t.Fatalf("%s: %s: exit code %s\n%s", where, st.command, code, strings.Join(printed, "\n"))
	}
	if problem := shows(st.output, printed); problem != "" && !*updateDocs {
		s.t.Errorf("%s: %s: %s\nprinted:\n%s", where, st.command, problem, strings.Join(printed, "\n"))
	}
	return printed
}

// interrupt waits until the running command has printed the page's output, and then sends an interrupt.
func (s *shell) interrupt(where string, st step) []string {
	s.t.Helper()
	var printed []string
	deadline := time.After(time.Minute)
	for shows(st.output, printed) != "" && (!*updateDocs || len(printed) < len(st.output)) {
		select {
		case <-s.more:
			printed = append(printed, s.take()...)
		case <-deadline:
			s.t.Fatalf("%s: %s: %s\nprinted:\n%s", where, st.command, shows(st.output, printed), strings.Join(printed, "\n"))
		}
	}
	s.n++
	done := fmt.Sprintf("--done %d ", s.n)
	s.type_("kill -INT $started; wait $started; echo; echo '" + done + "'$?\n")
	rest, _ := s.until(where, st.command, done)
	if len(rest) > 0 && shows(st.output, append(printed, rest...)) == "" {
		printed = append(printed, rest...)
	}
	return printed
}

func (s *shell) type_(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, text); err != nil {
		s.t.Fatal(err)
	}
}

// until returns the output before the line with prefix done, and the rest of that line.
func (s *shell) until(where, command, done string) (printed []string, rest string) {
	s.t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		for i, line := range s.peek() {
			if after, ok := strings.CutPrefix(line, done); ok {
				printed = s.take()[:i]
				if n := len(printed); n > 0 && printed[n-1] == "" {
					printed = printed[:n-1] // the shell prints a newline before done
				}
				return printed, after
			}
		}
		select {
		case <-s.more:
		case <-deadline:
			s.t.Fatalf("%s: %s: still running after two minutes\n%s", where, command, strings.Join(s.take(), "\n"))
		}
	}
}

func (s *shell) peek() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.printed...)
}

func (s *shell) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.printed
	s.printed = nil
	return taken
}
