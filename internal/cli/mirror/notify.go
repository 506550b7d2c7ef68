package mirror

import (
	"net"
	"os"
)

// notifier reports the state of the sync to systemd (Type=notify): it sends datagrams to the socket named by
// $NOTIFY_SOCKET, see sd_notify(3). Without that variable it does nothing.
type notifier struct{ socket string }

func newNotifier() *notifier { return &notifier{os.Getenv("NOTIFY_SOCKET")} }

func (n *notifier) ready()    { n.send("READY=1") }
func (n *notifier) stopping() { n.send("STOPPING=1") }

// send sends a state, such as READY=1, to systemd. It ignores errors, because the service works without notifications.
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
