package mirror

import (
	"net"
	"os"
)

// notifier tells systemd how far the service is (Type=notify): a datagram to the socket that $NOTIFY_SOCKET names, see
// sd_notify(3). Without one it does nothing.
type notifier struct{ socket string }

func newNotifier() *notifier { return &notifier{os.Getenv("NOTIFY_SOCKET")} }

func (n *notifier) ready()    { n.send("READY=1") }
func (n *notifier) stopping() { n.send("STOPPING=1") }

// send says it, if somebody listens: a service that cannot be heard is still a service.
func (n *notifier) send(state string) {
	if n.socket == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	_, _ = c.Write([]byte(state))
}
