package mirror

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/store"
)

// encoding is what the server is asked for, for one resource: "protobuf", or "JSON" and perhaps why it is not protobuf.
type encoding string

func (e encoding) protobuf() bool { return e == codec.EncodingProtobuf }

// chooseEncodings has those resources asked for in protobuf that this program can read. It cannot where the server is
// newer: fields that this program does not know would be stored, and not shown. A server that is out of reach is as it
// was when it was last heard.
func chooseEncodings(ctx context.Context, st *store.Store, plan []planned) {
	server, asked := "", false
	for i, p := range plan {
		plan[i].encoding = "JSON"
		gvk := p.resource.GroupVersion().WithKind(p.resource.Kind)
		example, err := scheme.Scheme.New(gvk)
		if err != nil || p.identity.Representation != entry.Unstructured {
			continue
		}
		if c, err := codec.For(example); err != nil || c.Name() != codec.EncodingProtobuf {
			continue
		}
		if !asked {
			server, asked = versionOf(ctx, st, p.conn), true
		}
		plan[i].encoding = encodingFor(server)
	}
}

// encodingFor returns the encoding to ask a server of that version for, which may be "".
func encodingFor(server string) encoding {
	is, err := version.ParseGeneric(server)
	if err != nil {
		return "JSON: the server's version is not known"
	}
	if version.MustParseGeneric(typesVersion).LessThan(version.MajorMinor(is.Major(), is.Minor())) {
		return encoding(fmt.Sprintf("JSON: the server, %s, is newer than the types that this larder knows, v%s", server,
			typesVersion))
	}
	return codec.EncodingProtobuf
}

// versionWait is how long a start that has an older answer waits for the server's version.
const versionWait = 2 * time.Second

// versionOf returns the version of the server, or the last one that is stored if it does not answer; "" if there is
// none.
func versionOf(ctx context.Context, st *store.Store, conn *cluster.Connection) string {
	stored, patience := "", cluster.AskFor
	if known, err := facts.ReadVersion(ctx, st); err == nil && known != nil {
		stored, patience = known.GitVersion, versionWait
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	v, err := cluster.ServerVersion(limited, conn.Raw)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("The server does not tell its version", "err", err)
		return stored
	}
	return v
}

// typesVersion is the version of Kubernetes that the types in this program are of: that of k8s.io/api.
const typesVersion = "1.37"
