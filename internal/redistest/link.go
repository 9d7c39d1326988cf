package redistest

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Some toxics of toxiproxy log by themselves, to nobody's use.
func init() { zerolog.SetGlobalLevel(zerolog.Disabled) }

// Link is the way to a server, which the test may make slow, cut, or make
// harm what goes over it.
type Link struct {
	proxy *toxiproxy.Proxy
}

// NewLink opens a way to the server that is as good as the direct one.
func (s *Server) NewLink(t testing.TB) *Link { return NewLink(t, s.Addr()) }

// NewLink opens a way to an address.
func NewLink(t testing.TB, upstream string) *Link {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l := &Link{proxy: toxiproxy.NewProxy(server, "link", "127.0.0.1:0", upstream)}
	l.Mend(t)
	t.Cleanup(l.proxy.Stop)
	return l
}

// Addr is where the link begins.
func (l *Link) Addr() string { return l.proxy.Listen }

// URL is the server as seen through the link.
func (l *Link) URL() string { return "redis://" + l.Addr() + "/0" }

// Slow gives each round trip that much time more, half of it either way, each
// of them off by up to jitter: whole milliseconds.
func (l *Link) Slow(t testing.TB, roundTrip, jitter time.Duration) {
	t.Helper()
	for _, way := range []string{"upstream", "downstream"} {
		l.add(t, "latency", way, map[string]int64{"latency": roundTrip.Milliseconds() / 2, "jitter": jitter.Milliseconds()})
	}
}

// LoseReplies lets everything through to the server and nothing back; a
// connection ends when nothing has come back for a while.
func (l *Link) LoseReplies(t testing.TB, silence time.Duration) {
	t.Helper()
	l.add(t, "timeout", "downstream", map[string]int64{"timeout": silence.Milliseconds()})
}

// Harm is what a link does to the bytes that go one way.
type Harm struct {
	Kind       string // of toxiproxy
	ToServer   bool   // the way of requests; otherwise that of replies
	Attributes map[string]int64
}

// Swallowed loses all bytes and keeps the connections: half of them is open.
func Swallowed(toServer bool) Harm { return Harm{"timeout", toServer, map[string]int64{"timeout": 0}} }

// CutOff ends each connection after so many bytes, within a message or between two.
func CutOff(toServer bool, bytes int64) Harm {
	return Harm{"limit_data", toServer, map[string]int64{"bytes": bytes}}
}

// Reset ends each connection with a reset when something has gone over it for
// that long.
func Reset(toServer bool, later time.Duration) Harm {
	return Harm{"reset_peer", toServer, map[string]int64{"timeout": later.Milliseconds()}}
}

// SlowClose tells of the end of a connection that much later.
func SlowClose(toServer bool, later time.Duration) Harm {
	return Harm{"slow_close", toServer, map[string]int64{"delay": later.Milliseconds()}}
}

// Sliced cuts what goes over the link into pieces of some bytes with a pause
// between them.
func Sliced(toServer bool, bytes int64, pause time.Duration) Harm {
	return Harm{"slicer", toServer, map[string]int64{"average_size": bytes, "size_variation": bytes / 2, "delay": pause.Microseconds()}}
}

// Narrow lets so many kilobytes a second through.
func Narrow(toServer bool, kilobytes int64) Harm {
	return Harm{"bandwidth", toServer, map[string]int64{"rate": kilobytes}}
}

// Harm makes the link do that to what goes over it, until Heal.
func (l *Link) Harm(t testing.TB, h Harm) {
	t.Helper()
	way := "downstream"
	if h.ToServer {
		way = "upstream"
	}
	l.add(t, h.Kind, way, h.Attributes)
}

// Heal takes back what Slow, LoseReplies and Harm did.
func (l *Link) Heal() { l.proxy.Toxics.ResetToxics(context.Background()) }

// Cut ends all connections and refuses new ones.
func (l *Link) Cut() { l.proxy.Stop() }

// Mend takes back what Cut did.
func (l *Link) Mend(t testing.TB) {
	t.Helper()
	if err := l.proxy.Start(); err != nil {
		t.Fatal(err)
	}
}

func (l *Link) add(t testing.TB, kind, way string, attributes map[string]int64) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"type": kind, "stream": way, "attributes": attributes})
	if err == nil {
		_, err = l.proxy.Toxics.AddToxicJson(bytes.NewReader(text))
	}
	if err != nil {
		t.Fatal(err)
	}
}
