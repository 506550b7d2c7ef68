package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// The credentials of two users in the group system:masters. The server listens on loopback and ends with the test.
const (
	token       = "larder-e2e"
	writerToken = "larder-e2e-writer"
)

// Writer is the user agent of clients that create and change test objects. Their requests are not logged, which saves
// the server several percent of its time.
const Writer = "writer"

// auditPolicy logs one entry per request and one per answer. It omits requests of the server itself, of Writer, and for
// Leases, because logging would slow down frequent writers.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: None
  users: ["system:apiserver", "e2e-writer"]
- level: None
  nonResourceURLs: ["/readyz*", "/livez*", "/healthz*"]
- level: None
  resources: [{group: coordination.k8s.io, resources: [leases]}]
- level: Metadata
`

type apiServer struct {
	binary string
	dir    string
	log    string
	audit  string
	port   int
	certs  certs
	args   []string
	env    []string
	proc   *Process
}

func newAPIServer(binaries, dir, etcdURL string, o Options) (*apiServer, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	c, err := newCerts(dir)
	if err != nil {
		return nil, err
	}
	tokens, policy := filepath.Join(dir, "tokens.csv"), filepath.Join(dir, "audit-policy.yaml")
	if err := os.WriteFile(tokens,
		[]byte(token+",e2e,e2e,system:masters\n"+writerToken+",e2e-writer,e2e-writer,system:masters\n"), 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	s := &apiServer{
		binary: filepath.Join(binaries, "kube-apiserver"),
		dir:    dir,
		log:    filepath.Join(dir, "kube-apiserver.log"),
		audit:  filepath.Join(dir, "audit.log"),
		port:   ports[0],
		certs:  c,
		env:    o.Env,
	}
	s.args = append([]string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", s.port),
		"--tls-cert-file=" + c.certFile, "--tls-private-key-file=" + c.keyFile,
		"--service-account-issuer=https://larder-e2e", "--service-account-key-file=" + c.keyFile,
		"--service-account-signing-key-file=" + c.keyFile,
		"--token-auth-file=" + tokens,
		"--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount",
		"--max-requests-inflight=0", "--max-mutating-requests-inflight=0", "--enable-priority-and-fairness=false",
		"--audit-policy-file=" + policy, "--audit-log-path=" + s.audit, "--audit-log-maxsize=4096",
	}, o.Args...)
	if !slices.ContainsFunc(o.Args, func(arg string) bool { return strings.HasPrefix(arg, "--authorization-mode=") }) {
		// The default is set only if the caller sets no value, because kube-apiserver adds a second value to the first.
		s.args = append(s.args, "--authorization-mode=AlwaysAllow")
	}
	return s, nil
}

// start starts the server and waits until the server is ready and has created kube-system.
func (s *apiServer) start(ctx context.Context) (err error) {
	if s.proc, err = StartProcess("kube-apiserver", s.log, s.env, s.binary, s.args...); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(s.config("controlplane"))
	if err != nil {
		return err
	}
	return waitFor(ctx, "kube-apiserver", s.proc, func(ctx context.Context) error {
		if err := readyz(ctx, client.Discovery().RESTClient()); err != nil {
			return err
		}
		for _, ns := range []string{metav1.NamespaceSystem, metav1.NamespaceDefault} {
			if _, err := client.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

func readyz(ctx context.Context, c rest.Interface) error {
	text, err := c.Get().AbsPath("/readyz").DoRaw(ctx)
	if err == nil {
		return nil
	}
	var failed []string
	for line := range strings.Lines(string(text)) {
		if check, ok := strings.CutPrefix(line, "[-]"); ok {
			failed = append(failed, strings.TrimSpace(check))
		}
	}
	if len(failed) == 0 {
		return err
	}
	return fmt.Errorf("on a busy machine that takes minutes, so try again; these checks fail: %s",
		strings.Join(failed, ", "))
}

func (s *apiServer) config(userAgent string) *rest.Config {
	credential := token
	if userAgent == Writer {
		credential = writerToken
	}
	return &rest.Config{
		Host:            fmt.Sprintf("https://127.0.0.1:%d", s.port),
		BearerToken:     credential,
		TLSClientConfig: rest.TLSClientConfig{CAData: s.certs.pem},
		UserAgent:       userAgent,
		QPS:             -1, // no client-side rate limit for the tests' writes
	}
}
