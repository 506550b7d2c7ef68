package source

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/internal/layout"
	"github.com/larder-dev/larder/store"
)

const (
	// readHeaderTimeout bounds the time for reading a request's header. idleTimeout bounds how long a connection without a
	// request stays open.
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = time.Minute
	// drainTimeout is how long Close waits for running requests before it cancels them.
	drainTimeout = 2 * time.Second
	streamBuffer = 64 << 10
)

// Holder reads and maintains the store of the process that has it open for writing.
type Holder interface {
	Source
	Watcher
	Logger
	Compact(ctx context.Context) (store.Compacted, error)
	Rekey(ctx context.Context, key string) (store.Compacted, error)
	Audit(ctx context.Context) ([]Audited, error)
	// Save writes a snapshot of one state of the store, although the store stays in use.
	Save(ctx context.Context, w io.Writer, r SaveRequest) error
}

// Server answers the requests of other processes' commands, for the process that holds the store.
type Server struct {
	http *http.Server
	// cancel cancels the running requests.
	cancel context.CancelFunc
	// serving waits for the goroutine that accepts connections, and handlers for the running requests.
	serving  sync.WaitGroup
	handlers sync.WaitGroup
}

// NewServer returns a server that answers from h, which must stay usable until Close. sync describes this process.
// Start starts the server.
func NewServer(h Holder, sync Sync) *Server {
	mux := http.NewServeMux()
	answer(mux, "GET "+pathSync, func(context.Context, nothing) (Sync, error) { return sync, nil })
	answer(mux, "GET "+pathStatus, func(ctx context.Context, _ nothing) (Status, error) {
		status, err := h.Status(ctx)
		status.Sync = &sync
		return status, err
	})
	answer(mux, "GET "+pathCheck, func(ctx context.Context, _ nothing) (store.Report, error) { return h.Check(ctx) })
	answer(mux, "POST "+pathCompact, func(ctx context.Context, _ nothing) (store.Compacted, error) {
		return h.Compact(ctx)
	})
	answer(mux, "POST "+pathAudit, func(ctx context.Context, _ nothing) ([]Audited, error) { return h.Audit(ctx) })
	answer(mux, "POST "+pathRekey, h.Rekey)
	stream(mux, "GET "+pathRecords, func(ctx context.Context, q Query, out *output) error {
		return sendBlocks(ctx, h, q, out)
	})
	stream(mux, "GET "+pathChanges, func(ctx context.Context, q LogQuery, out *output) error {
		from, err := h.Log(ctx, q, func(l Logged) error { return out.send(l, false) })
		return errors.Join(err, out.send(Logged{Type: Bookmark, Time: from}, false))
	})
	stream(mux, "GET "+pathWatch, func(ctx context.Context, q WatchQuery, out *output) error {
		return h.Watch(ctx, q, func(e Event) error { return out.send(e, e.Type == Bookmark) })
	})
	stream(mux, "POST "+pathSnapshot, func(ctx context.Context, r SaveRequest, out *output) error {
		r.Larder = sync.Version
		return h.Save(ctx, out.buffer, r)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(unknownPath(sync, r))
	})
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{cancel: cancel}
	s.http = &http.Server{Handler: s.track(mux), ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	return s
}

// Start accepts connections from l on a new goroutine until Close, which closes l.
func (s *Server) Start(l net.Listener) { s.serving.Go(func() { _ = s.http.Serve(l) }) }

// Close stops listening. It waits two seconds for running requests before it cancels them. When Close returns, no
// goroutine of the server runs. It does not close the store.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	s.cancel()
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	s.serving.Wait()
	s.handlers.Wait()
	return err
}

// track counts running requests, so that Close can wait for them: http.Server.Close does not wait for handlers.
func (s *Server) track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handlers.Add(1)
		defer s.handlers.Done()
		next.ServeHTTP(w, r)
	})
}

type nothing struct{}

// answer registers a handler for pattern that responds with the value of the function ask in JSON.
func answer[Q, T any](mux *http.ServeMux, pattern string, ask func(context.Context, Q) (T, error)) {
	stream(mux, pattern, func(ctx context.Context, q Q, out *output) error {
		value, err := ask(ctx, q)
		if err != nil {
			return err
		}
		return json.NewEncoder(out.buffer).Encode(value)
	})
}

// stream registers a handler for pattern that responds with what the function write sends. The trailer of the response
// has the error of write.
func stream[Q any](mux *http.ServeMux, pattern string, write func(context.Context, Q, *output) error) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", trailerEnd)
		out := newOutput(w)
		var q Q
		err := json.Unmarshal([]byte(cmp.Or(r.URL.Query().Get(paramQuery), "null")), &q)
		if err == nil {
			err = write(r.Context(), q, out)
		}
		if out.buffer.Flush() != nil {
			return
		}
		if end, err := json.Marshal(newFailure(err)); err == nil {
			w.Header().Set(trailerEnd, string(end))
		}
	})
}

type output struct {
	control *http.ResponseController
	buffer  *bufio.Writer
	enc     *gob.Encoder
}

func newOutput(w http.ResponseWriter) *output {
	buffer := bufio.NewWriterSize(w, streamBuffer)
	return &output{http.NewResponseController(w), buffer, gob.NewEncoder(buffer)}
}

// send adds a value, encoded with gob, to the stream. Without flush the value may stay in a buffer.
func (o *output) send(value any, flush bool) error {
	if err := o.enc.Encode(value); err != nil || !flush {
		return err
	}
	if err := o.buffer.Flush(); err != nil {
		return err
	}
	return o.control.Flush()
}

// sendBlocks sends the entries that q selects, in blocks of the size and the encoding of a snapshot's blocks.
func sendBlocks(ctx context.Context, src Source, q Query, out *output) error {
	var block []byte
	err := src.Entries(ctx, q, func(e entry.Entry) error {
		if block = layout.AppendRecord(block, e); len(block) < layout.BlockTarget {
			return nil
		}
		err := out.send(block, false)
		block = layout.Reuse(block)
		return err
	})
	if sendErr := out.send(block, false); err == nil {
		err = sendErr
	}
	return err
}

// maxSocketPath is the maximum length, in bytes, of a path that is used unchanged as the address of a socket. The
// kernel's limit, with the final zero, is 104 bytes on macOS and the BSDs, and 108 on Linux and Windows.
const maxSocketPath = 100

// SocketPath returns the path of the socket on which the larder sync that holds the store listens. It is the store's
// path with ".sock" appended, or, if that is too long for a socket, ".larder-<hash of the store's name>.sock" in the
// same directory. Symbolic links are resolved first, so that all names of one store lead to one socket.
func SocketPath(storePath string) (string, error) {
	real, err := base.RealPath(storePath)
	if err != nil {
		return "", err
	}
	if p := real + ".sock"; len(p) <= maxSocketPath {
		return p, nil
	}
	sum := sha256.Sum256([]byte(filepath.Base(real)))
	return filepath.Join(filepath.Dir(real), ".larder-"+hex.EncodeToString(sum[:6])+".sock"), nil
}

// Listen listens on the socket of the store, with the mode 0600. It replaces a socket left by a killed larder sync. The
// caller must hold the store's lock, which makes it the owner of the socket.
func Listen(storePath string) (net.Listener, error) {
	path, err := SocketPath(storePath)
	if err != nil {
		return nil, err
	}
	if info, err := os.Lstat(path); err == nil && !isSocket(info) {
		return nil, fmt.Errorf("%s is in the way: it is not a socket; move it elsewhere", path)
	}
	if runtime.GOOS == "windows" {
		return listenAt(path)
	}
	return listenAside(path)
}

// listenAside listens on a socket in a directory that only this user can enter, sets the socket's mode, and renames the
// socket to path. Other users can therefore never connect. The directory has a fixed name. A larder sync that was
// killed may have left it, so it is removed first: the store's lock excludes another living sync.
func listenAside(path string) (net.Listener, error) {
	private := path + ".new"
	if err := os.RemoveAll(private); err != nil {
		return nil, err
	}
	if err := os.Mkdir(private, 0o700); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(private) }()
	bound := filepath.Join(private, "s")
	short, release, err := shortPath(bound)
	if err != nil {
		return nil, err
	}
	defer release()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(bound, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if err := os.Rename(bound, path); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &listener{UnixListener: l, path: path}, nil
}

// listenAt listens at path without a private directory. On Windows the access list of the directory protects the
// socket.
func listenAt(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	return &listener{UnixListener: l, path: path}, nil
}

type listener struct {
	*net.UnixListener
	path string
}

func (l *listener) Close() error {
	err := l.UnixListener.Close()
	if errors.Is(err, net.ErrClosed) {
		return err // an earlier Close has removed the socket's file, and a new socket may have its name
	}
	if rmErr := os.Remove(l.path); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
		return errors.Join(err, rmErr)
	}
	return err
}

func isSocket(info fs.FileInfo) bool {
	if runtime.GOOS == "windows" { // older Go versions report a socket as irregular
		return info.Mode()&(fs.ModeSocket|fs.ModeIrregular) != 0
	}
	return info.Mode()&fs.ModeSocket != 0
}

// ErrOtherUser says that the process that listens on a store's socket is not trusted: it runs as a user other than
// root, this process's user, and the owner of the store's file. In a shared directory any user can place a socket.
var ErrOtherUser = errors.New("its process is of another user, who does not own the store")

func dial(ctx context.Context, path, storePath string) (net.Conn, error) {
	short, release, err := shortPath(path)
	if err != nil {
		return nil, err
	}
	defer release()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", short)
	if err != nil {
		return nil, err
	}
	if uid, known := base.PeerOwner(c.(*net.UnixConn), path); known && !base.TrustedOwner(uid) {
		file, err := os.Stat(storePath)
		if of, known := fileOwner(file, err); !known || of != uid {
			return nil, errors.Join(fmt.Errorf("user %d: %w", uid, ErrOtherUser), c.Close())
		}
	}
	return c, nil
}

func fileOwner(info fs.FileInfo, err error) (uid int, known bool) {
	if err != nil {
		return 0, false
	}
	return base.OwnerOf(info)
}

// shortPath returns a path that leads to the same socket as path and is short enough for an address: path, or a path
// through a temporary link to its directory. release removes the link. An open socket does not need the link; only
// listening and connecting do.
func shortPath(path string) (short string, release func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	temp, err := os.MkdirTemp("", "larder-")
	if err == nil && len(temp)+len("/d/")+len(filepath.Base(path)) > maxSocketPath {
		_ = os.Remove(temp)
		temp, err = os.MkdirTemp("/tmp", "larder-")
	}
	if err != nil {
		return "", nil, err
	}
	release = func() { _ = os.RemoveAll(temp) }
	link := filepath.Join(temp, "d")
	if err := os.Symlink(filepath.Dir(path), link); err != nil {
		release()
		return "", nil, fmt.Errorf("the path %s is too long for a socket, and it cannot be shortened: %w", path, err)
	}
	return filepath.Join(link, filepath.Base(path)), release, nil
}
