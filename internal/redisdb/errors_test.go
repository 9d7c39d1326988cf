package redisdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"tundish/internal/redistest"
)

// reply is an error as Redis answers it.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestKind(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	tests := []struct {
		err         error
		kind        string
		unavailable bool
		lost        bool
	}{
		{reply("LOADING Redis is loading the dataset in memory"), KindLoading, true, false},
		{reply("READONLY You can't write against a read only replica."), KindReadOnly, true, false},
		{reply("MISCONF Redis is configured to save RDB snapshots"), KindMisconf, true, false},
		{reply("OOM command not allowed when used memory > 'maxmemory'."), KindOOM, true, false},
		{reply("ERR Error running script (call to f_12): @user_script:1: @user_script: 1: -OOM command not allowed"), KindOOM, true, false},
		{reply("NOREPLICAS Not enough good replicas to write."), KindNoReplicas, true, false},
		{reply("CLUSTERDOWN The cluster is down"), KindClusterDown, true, false},
		{reply("TRYAGAIN Multiple keys request during rehashing of slot"), KindClusterDown, true, false},
		{reply("MOVED 3999 127.0.0.1:6381"), KindClusterDown, true, false},
		{reply("MASTERDOWN Link with MASTER is down"), KindMasterDown, true, false},
		{reply("ERR max number of clients reached"), KindMaxClients, true, false},
		{reply("BUSY Redis is busy running a script"), KindBusy, true, false},
		{reply("NOAUTH Authentication required."), KindAuth, false, false},
		{reply("NOPERM this user has no permissions"), KindAuth, false, false},
		{reply("ERR user_script:12: attempt to index a nil value"), KindScript, false, false},
		{reply("ERR Error running script (call to f_12): user_script:1: -odd"), KindScript, false, false},
		{reply("WRONGTYPE Operation against a key"), KindScript, false, false},
		{dial, KindNetwork, true, false},
		{io.EOF, KindNetwork, true, true},
		{io.ErrUnexpectedEOF, KindNetwork, true, true},
		{net.ErrClosed, KindNetwork, true, true},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, KindNetwork, true, true},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, KindTimeout, true, true},
		{context.DeadlineExceeded, KindTimeout, true, true},
		{context.Canceled, KindCancelled, false, true},
		{redis.ErrPoolTimeout, KindPool, true, false},
		{redis.ErrClosed, KindClosed, true, false},
		{errors.New("odd"), KindOther, false, true},
	}
	for _, tt := range tests {
		err := fmt.Errorf("script turn: %w", tt.err)
		if k := Kind(err); k != tt.kind || !slices.Contains(Kinds(), k) {
			t.Errorf("%v is a %s, want %s", tt.err, k, tt.kind)
		}
		if Unavailable(err) != tt.unavailable {
			t.Errorf("%v: unavailable is %v", tt.err, Unavailable(err))
		}
		if Lost(err) != tt.lost {
			t.Errorf("%v: lost is %v", tt.err, Lost(err))
		}
	}
	if Unavailable(nil) || Lost(nil) {
		t.Error("no error is an error")
	}
}

// What a real server says when it cannot write.
func TestKindOfRealServers(t *testing.T) {
	t.Parallel()
	write := NewScript("write", Prelude(), Part{Name: "body", Source: `return redis.call('SET', K.conf, ARGV[1])`})
	tests := map[string]struct{ name, value string }{
		KindOOM:        {"maxmemory", "1"},
		KindNoReplicas: {"min-replicas-to-write", "1"},
	}
	for kind, setting := range tests {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			db := open(t, Config{URL: s.URL()})
			s.Config(t, setting.name, setting.value)
			_, err := db.RunOnce(t.Context(), write, laneKeys(t, db), "x")
			if err == nil || Kind(err) != kind || !Unavailable(err) {
				t.Fatalf("error is %v", err)
			}
		})
	}
	t.Run(KindAuth, func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		s.Config(t, "requirepass", "hunter2")
		_, err := Open(t.Context(), Config{URL: s.URL()})
		if err == nil || Kind(err) != KindAuth || Unavailable(err) {
			t.Fatalf("error is %v", err)
		}
	})
}
