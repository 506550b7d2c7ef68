package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/larder-dev/larder/internal/cli"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
)

// syncPoll is how often larder sync is asked whether it has synced.
const syncPoll = 20 * time.Millisecond

// runSync runs larder sync in this process, until it has synced.
func runSync(ctx context.Context, b *Bench) (_ Result, err error) {
	kubeconfig := filepath.Join(filepath.Dir(b.Case.File), "kubeconfig")
	if err := writeKubeconfig(b, kubeconfig); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var log bytes.Buffer
	ended := make(chan int, 1)
	start := time.Now()
	go func() {
		args := []string{"sync", b.Kind.GVR.Resource, "--store", b.Case.File, "--kubeconfig", kubeconfig}
		ended <- cli.Run(ctx, args, command.IO{Out: io.Discard, Err: &log})
	}()
	defer func() {
		cancel()
		if code := <-ended; code != 0 && err == nil {
			err = fmt.Errorf("larder sync has ended with %d: %s", code, log.String())
		}
	}()
	for {
		select {
		case <-time.After(syncPoll):
		case code := <-ended:
			ended <- code
			return nil, errors.New("larder sync has ended")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if objects, synced := synced(ctx, b.Case.File); synced {
			result := b.addMemory(Result{"synced": time.Since(start).Seconds()})
			if objects != b.Case.N {
				return nil, fmt.Errorf("larder sync holds %d objects, want %d", objects, b.Case.N)
			}
			return result, nil
		}
	}
}

// synced asks the sync that holds the store.
func synced(ctx context.Context, store string) (objects int, synced bool) {
	socket, err := source.SocketPath(store)
	if err != nil {
		return 0, false
	}
	client, _, err := source.Dial(ctx, socket)
	if err != nil {
		return 0, false
	}
	defer client.Close() //nolint:errcheck // nothing was written
	status, err := client.Status(ctx)
	if err != nil || len(status.Collections) == 0 {
		return 0, false
	}
	c := status.Collections[0]
	return c.Objects, c.Live != nil && c.Live.Synced
}

func writeKubeconfig(b *Bench, path string) error {
	access, c := b.Case.Access, clientcmdapi.NewConfig()
	c.Clusters["bench"] = &clientcmdapi.Cluster{Server: access.Host, CertificateAuthorityData: access.CA}
	c.AuthInfos["bench"] = &clientcmdapi.AuthInfo{Token: access.Token}
	c.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "bench"}
	c.CurrentContext = "bench"
	return clientcmd.WriteToFile(*c, path)
}
