package scenario

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/reflector"
)

const theList = "the list, gzipped, to /dev/null"

// rawList lists the objects with gzip, in pages of Larder's size, and discards them, like curl to /dev/null. So it
// measures the server alone. Typed objects are in protobuf, unstructured ones in JSON.
func rawList(ctx context.Context, b *Bench) (Result, error) {
	config := b.Case.Access.Config()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	gvr, accept := b.Kind.GVR, runtime.ContentTypeProtobuf
	if b.Case.Subject.Dynamic {
		accept = runtime.ContentTypeJSON
	}
	path := "/apis/" + gvr.Group + "/" + gvr.Version
	if gvr.Group == "" {
		path = "/api/" + gvr.Version
	}
	query := url.Values{"limit": {strconv.Itoa(reflector.DefaultPageSize)}}
	start, pages := time.Now(), 0
	for more := true; more; more = query.Get("continue") != "" {
		pages++
		token, err := rawPage(ctx, client, config.Host+path+"/"+gvr.Resource+"?"+query.Encode(), accept)
		if err != nil {
			return nil, err
		}
		query.Set("continue", token)
	}
	took := time.Since(start).Seconds()
	return Result{"synced": took, "told": took, "pages": float64(pages)}, nil
}

func rawPage(ctx context.Context, client *http.Client, address, accept string) (token string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Accept", accept)
	request.Header.Set("Accept-Encoding", "gzip") // set explicitly, so that the transport does not decompress the answer
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the server answered %s", response.Status)
	}
	body := bufio.NewReaderSize(response.Body, 64<<10)
	head, err := body.Peek(4 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if response.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(bytes.NewReader(head))
		if err != nil {
			return "", err
		}
		plain := make([]byte, 1<<10)
		n, _ := io.ReadFull(z, plain) // an error is expected: only the head of the gzip stream is there
		head = plain[:n]
	}
	_, err = io.Copy(io.Discard, body)
	return continueOf(head), err
}

// continueToken matches a continue token, in protobuf and in JSON: base64 of JSON that begins with {"v".
var continueToken = regexp.MustCompile(`eyJ2[A-Za-z0-9_-]+`)

// continueOf returns the continue token in the metadata at the start of a list; "" without a token.
func continueOf(head []byte) string { return string(continueToken.Find(head[:min(len(head), 400)])) }
