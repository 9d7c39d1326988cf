package redisdb

import (
	"context"
	"errors"
	"io"
	"net"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The kinds of failures: the closed list behind redis_errors_total{kind}.
const (
	KindTimeout     = "timeout"      // no answer in time
	KindNetwork     = "network"      // no connection, or it broke
	KindPool        = "pool"         // no free connection in time
	KindClosed      = "closed"       // our own client is closed
	KindLoading     = "loading"      // Redis reads its data
	KindReadOnly    = "readonly"     // a replica
	KindMisconf     = "misconf"      // Redis cannot write to disk
	KindOOM         = "oom"          // maxmemory is reached
	KindNoReplicas  = "noreplicas"   // fewer replicas than it wants
	KindClusterDown = "clusterdown"  // slots have no node, or move
	KindMasterDown  = "masterdown"   // a replica without its master
	KindMaxClients  = "max_clients"  // Redis has no connection free
	KindBusy        = "busy"         // a script runs for too long
	KindAuth        = "auth"         // wrong password, or a command is not allowed
	KindCancelled   = "cancelled"    // our caller gave up
	KindScript      = "script_error" // any other answer that is an error: a bug
	KindOther       = "other"
)

// Kinds lists every kind, for metrics that begin at zero.
func Kinds() []string {
	return []string{
		KindTimeout, KindNetwork, KindPool, KindClosed, KindLoading, KindReadOnly, KindMisconf, KindOOM,
		KindNoReplicas, KindClusterDown, KindMasterDown, KindMaxClients, KindBusy, KindAuth,
		KindCancelled, KindScript, KindOther,
	}
}

// replyKinds maps the first word of an error reply.
var replyKinds = map[string]string{
	"LOADING": KindLoading, "READONLY": KindReadOnly, "MISCONF": KindMisconf, "OOM": KindOOM,
	"NOREPLICAS": KindNoReplicas, "CLUSTERDOWN": KindClusterDown, "TRYAGAIN": KindClusterDown,
	"MOVED": KindClusterDown, "ASK": KindClusterDown, "MASTERDOWN": KindMasterDown, "BUSY": KindBusy,
	"NOAUTH": KindAuth, "WRONGPASS": KindAuth, "NOPERM": KindAuth,
}

// passing are the kinds that end by themselves or by an operator's hand on
// Redis: the same call may succeed later.
var passing = map[string]bool{
	KindTimeout: true, KindNetwork: true, KindPool: true, KindClosed: true, KindLoading: true,
	KindReadOnly: true, KindMisconf: true, KindOOM: true, KindNoReplicas: true, KindClusterDown: true,
	KindMasterDown: true, KindMaxClients: true, KindBusy: true,
}

// Unavailable says whether err means that Redis cannot serve us now.
func Unavailable(err error) bool { return err != nil && passing[Kind(err)] }

// Lost says whether a call made with RunOnce (or Once) and ended by err may
// have run all the same: no answer came, and it may have been sent.
func Lost(err error) bool {
	if err == nil || isReply(err) || isDial(err) {
		return false
	}
	return !errors.Is(err, redis.ErrPoolTimeout) && !errors.Is(err, redis.ErrPoolExhausted) && !errors.Is(err, redis.ErrClosed)
}

// Kind puts err, not nil, into the closed list.
func Kind(err error) string {
	switch {
	case isReply(err):
		return kindOfReply(err)
	case errors.Is(err, context.Canceled):
		return KindCancelled
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return KindPool
	case errors.Is(err, redis.ErrClosed):
		return KindClosed
	case isTimeout(err):
		return KindTimeout
	case isNetwork(err):
		return KindNetwork
	}
	return KindOther
}

func isReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

func isDial(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout()
}

func isNetwork(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe)
}

// innerReply finds the word of an error inside the text that Redis before 7
// makes of a failed redis.call: "ERR Error running script (…): … -OOM command …".
var innerReply = regexp.MustCompile(`: -([A-Z]+) `)

func kindOfReply(err error) string {
	reply, _ := errors.AsType[redis.Error](err)
	text := reply.Error()
	word, _, _ := strings.Cut(text, " ")
	if k, ok := replyKinds[word]; ok {
		return k
	}
	if strings.HasPrefix(text, "ERR max number of clients") {
		return KindMaxClients
	}
	if strings.HasPrefix(text, "ERR Error running script") {
		if m := innerReply.FindStringSubmatch(text); m != nil && replyKinds[m[1]] != "" {
			return replyKinds[m[1]]
		}
	}
	return KindScript
}
