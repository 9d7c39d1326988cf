package app

import (
	"context"

	"github.com/redis/go-redis/v9"

	"tundish/internal/redisdb"
)

// wake brings the names of lanes that became due. It only ever shortens a
// wait: a message that is lost or dropped costs half a second.
type wake struct {
	sub   *redis.PubSub
	lanes chan string
	done  chan struct{}
}

func subscribe(db *redisdb.DB) *wake {
	w := &wake{sub: db.Client().Subscribe(context.Background(), db.Keys().Wake()), lanes: make(chan string, 1024), done: make(chan struct{})}
	go w.forward()
	return w
}

func (w *wake) forward() {
	defer close(w.done)
	for m := range w.sub.Channel() {
		select {
		case w.lanes <- m.Payload:
		default:
		}
	}
}

func (w *wake) close() {
	_ = w.sub.Close() // ends the channel
	<-w.done
}
