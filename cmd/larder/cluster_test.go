package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/internal/storetest/disk"
)

type clusterKey struct{}

// cluster is the fake API server of one script. $KUBECONFIG is the path of its kubeconfig.
type cluster struct {
	server     *fakeapi.Server
	kubeconfig string
	running    bool
	// heal holds a function for each fault that the script has injected into the server. The function ends the fault.
	heal []func()
}

var kinds = map[string]schema.GroupVersionKind{
	"pods":        {Version: "v1", Kind: "Pod"},
	"namespaces":  {Version: "v1", Kind: "Namespace"},
	"nodes":       {Version: "v1", Kind: "Node"},
	"configmaps":  {Version: "v1", Kind: "ConfigMap"},
	"secrets":     {Version: "v1", Kind: "Secret"},
	"deployments": {Group: "apps", Version: "v1", Kind: "Deployment"},
	"widgets":     {Group: "example.com", Version: "v1", Kind: "Widget"},
}

var reasons = map[int]string{
	http.StatusUnauthorized: "Unauthorized", http.StatusForbidden: "Forbidden", http.StatusNotFound: "NotFound",
	http.StatusMethodNotAllowed: "MethodNotAllowed", http.StatusServiceUnavailable: "ServiceUnavailable",
}

func newCluster(env *testscript.Env) *cluster {
	c := &cluster{kubeconfig: filepath.Join(env.WorkDir, "kubeconfig"),
		server: fakeapi.New(fakeapi.Options{Resources: []fakeapi.Resource{{
			GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"},
			Kind:                 "Widget", Singular: "widget", ShortNames: []string{"wd"}, Namespaced: true,
		}}})}
	env.Setenv("KUBECONFIG", c.kubeconfig)
	// With the race detector each process sleeps for a second before it exits. The scripts start many processes, so the
	// sleep is turned off.
	env.Setenv("GORACE", "atexit_sleep_ms=0")
	return c
}

func (c *cluster) close() {
	if c.running {
		c.server.Stop()
	}
}

// server is the script command that controls the fake API server:
//
//	server start | stop                       connects and disconnects the server; its address is $SERVER
//	server restart                            restarts it without its watch history
//	server create RESOURCE KEY [LABEL=VALUE…] KEY is namespace/name or name; update takes the same arguments
//	server delete RESOURCE KEY
//	server fill N                             creates the pods many/p00000, many/p00001, …
//	server bookmark                           sends a bookmark
//	server reset                              resets the request counts
//	server fault VERB STATUS [RESOURCE]       answers VERB with STATUS until heal; VERB may be discovery
//	server swallow RESOURCE                   drops the events of new watches, except bookmarks
//	server heal                               ends all faults
//	server counts RESOURCE LISTS              fails unless exactly LISTS lists have arrived since reset
//	server watches RESOURCE WATCHES           fails unless exactly WATCHES watches have arrived since reset
func server(ts *testscript.TestScript, neg bool, args []string) {
	c, ok := ts.Value(clusterKey{}).(*cluster)
	if !ok || neg || len(args) == 0 {
		ts.Fatalf("usage: server COMMAND ARG…")
	}
	switch verb := args[0]; verb {
	case "start":
		ts.Check(c.start())
		ts.Setenv("SERVER", strings.TrimPrefix(c.server.Config().Host, "http://"))
	case "stop":
		c.server.Stop()
		c.running = false
	case "restart":
		ts.Check(c.server.Restart())
	case "create", "update", "delete":
		ts.Check(c.write(verb, args[1], args[2], args[3:]))
	case "fill":
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		for i := range n {
			ts.Check(c.write("create", "pods", fmt.Sprintf("many/p%05d", i), nil))
		}
	case "bookmark":
		c.server.Bookmark()
	case "reset":
		c.server.ResetCounts()
	case "fault":
		status, err := strconv.Atoi(args[2])
		ts.Check(err)
		f := fakeapi.Fault{Verb: args[1], Status: status, Reason: reasons[status]}
		if len(args) > 3 {
			f.Resource = args[3]
		}
		c.heal = append(c.heal, c.server.InjectFault(f))
	case "swallow":
		c.heal = append(c.heal, c.server.InjectFault(fakeapi.Fault{Verb: "watch", Resource: args[1], SwallowEvents: true}))
	case "heal":
		for _, heal := range c.heal {
			heal()
		}
	case "counts":
		got := c.server.Counts(gvr(args[1])).Lists
		if strconv.Itoa(got) != args[2] {
			ts.Fatalf("%d lists of %s, want %s\n%s", got, args[1], args[2], strings.Join(c.server.Requests(), "\n"))
		}
	case "watches":
		got := c.server.Counts(gvr(args[1])).Watches
		if strconv.Itoa(got) != args[2] {
			ts.Fatalf("%d watches of %s, want %s\n%s", got, args[1], args[2], strings.Join(c.server.Requests(), "\n"))
		}
	default:
		ts.Fatalf("server %s: no such command", verb)
	}
}

func (c *cluster) start() error {
	if err := c.server.Start(); err != nil {
		return err
	}
	c.running = true
	config := clientcmdapi.NewConfig()
	config.Clusters["fake"] = &clientcmdapi.Cluster{Server: c.server.Config().Host}
	config.AuthInfos["fake"] = &clientcmdapi.AuthInfo{}
	config.Contexts["fake"] = &clientcmdapi.Context{Cluster: "fake", AuthInfo: "fake"}
	config.CurrentContext = "fake"
	return clientcmd.WriteToFile(*config, c.kubeconfig)
}

func gvr(resource string) schema.GroupVersionResource {
	return kinds[resource].GroupVersion().WithResource(resource)
}

// write creates, updates or deletes an object on the fake server. The data of a secret is base64 of "the-secret-value",
// and an annotation holds the value in clear text.
func (c *cluster) write(verb, resource, key string, labels []string) error {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		namespace, name = "", key
	}
	if verb == "delete" {
		return c.server.Delete(gvr(resource), namespace, name)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kinds[resource])
	u.SetNamespace(namespace)
	u.SetName(name)
	set := map[string]string{}
	for _, l := range labels {
		label, value, _ := strings.Cut(l, "=")
		set[label] = value
	}
	u.SetLabels(set)
	if resource == "secrets" {
		u.SetAnnotations(map[string]string{"last-applied": "the-secret-value"})
		u.Object["data"] = map[string]any{"password": "dGhlLXNlY3JldC12YWx1ZQ=="}
	}
	if resource == "widgets" {
		u.Object["spec"] = map[string]any{"size": int64(3), "ratio": 0.5, "note": nil}
	}
	do := c.server.Create
	if verb == "update" {
		do = c.server.Update
	}
	_, err := do(gvr(resource), u)
	return err
}

// damage is the script command that corrupts a file: damage FILE truncate | zero | newer | flip TEXT. flip inverts one
// bit in the first byte of each occurrence of TEXT. newer sets an unknown format version. damageSnapshot describes
// alter, begin, cut and later, which damage a snapshot.
func damage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: damage FILE truncate|zero|flip [TEXT]")
	}
	path := ts.MkAbs(args[0])
	if args[1] == "newer" {
		ts.Check(setFormat(path, 1<<20))
		return
	}
	data, err := os.ReadFile(path)
	ts.Check(err)
	switch args[1] {
	case "alter", "begin", "cut", "later":
		data = damageSnapshot(data, args[1])
	case "truncate":
		data = data[:9000] // the rest has the two meta pages and little more: bbolt allocates much more than it uses
	case "zero":
		clear(data)
	case "flip":
		at := strings.Index(string(data), args[2])
		if at < 0 {
			ts.Fatalf("%s does not hold %q", args[0], args[2])
		}
		for ; at >= 0; at = strings.Index(string(data), args[2]) {
			data[at] ^= 1
		}
	}
	ts.Check(os.WriteFile(path, data, 0o600))
}

func setFormat(path string, version uint64) error {
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error { return disk.PutFormat(tx, version) })
	return errors.Join(err, db.Close())
}
