package informer_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
)

// TestStartIsLogged checks that the log names the number and age of the served objects, and the resourceVersion at
// which the watch was resumed.
func TestStartIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var l logLines
		logger := funcr.New(func(_, args string) { l.add(args) }, funcr.Options{})
		r := newRig(t)
		r.o.Logger = &logger
		r.srv.write("a/1", "x")
		r.srv.write("a/2", "x")
		r.start()
		r.close()
		if l.count("from disk") != 0 || l.count("Resumed") != 0 {
			t.Errorf("a cold start says %q", l.all())
		}
		r.srv.write("a/3", "x")
		r.start()
		time.Sleep(time.Hour) // routine reconnects of the watch are not logged
		r.close()
		if l.count(`"Serving objects from disk"`, `"type"="*v1.Pod"`, `"objects"=2`, `"asOf"="2000-01-01`) != 1 ||
			l.count(`"Resumed"`, `"resourceVersion"="102" "now"="103"`) != 1 {
			t.Errorf("a start from disk says %q", l.all())
		}
	})
}

// TestSourceIsLogged checks that the log says whether objects are stored in the bytes that the server sends.
func TestSourceIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for contentType, want := range map[string]string{"": "false", runtime.ContentTypeProtobuf: "true"} {
			var l logLines
			logger := funcr.New(func(_, args string) { l.add(args) }, funcr.Options{Verbosity: 2})
			s := side{name: "ours", c: config{transform: "none", contentType: contentType}, f: newFront(newWorld())}
			if err := s.open(nil); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
			cancel()
			s.inf.RunWithContext(ctx)
			if l.count(`"Starting the informer"`, `"type"="*v1.Pod"`, `"undecoded"=`+want) != 1 {
				t.Errorf("%q: logged %q", contentType, l.all())
			}
		}
	})
}

func TestSecretsAreLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var l logLines
		logger := funcr.New(func(_, args string) { l.add(args) }, funcr.Options{})
		r := newRig(t)
		r.o.Logger = &logger
		r.o.Identity = entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets")}
		r.start()
		r.close()
		if l.count("kept in memory only", "they are not to be stored without") != 1 {
			t.Errorf("logged %q", l.all())
		}
	})
}

type logLines struct {
	mu   sync.Mutex
	text []string
}

func (l *logLines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, line)
}

func (l *logLines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.text)
}

func (l *logLines) count(parts ...string) (n int) {
	for _, line := range l.all() {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			n++
		}
	}
	return n
}
