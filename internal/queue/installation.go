package queue

import (
	"context"
	"fmt"
	"strconv"

	"tundish/internal/redisdb"
)

// formatVersion is the version of what is stored. A process meets only what it can read.
const formatVersion = 2

// Join makes sure that the namespace holds an installation and answers its id:
// the one that is there, or fresh if there is none. Another id than before
// says that Redis lost its memory.
func (s *Store) Join(ctx context.Context, fresh string) (id string, err error) {
	meta := s.db.Keys().Meta()
	values, err := s.db.Client().HMGet(ctx, meta, "installation", "format", "shards").Result()
	if err != nil {
		return "", callerError(err)
	}
	if values[0] == nil {
		if err := s.db.Client().HSetNX(ctx, meta, "installation", fresh).Err(); err != nil {
			return "", callerError(err)
		}
		if err := s.db.Client().HSet(ctx, meta, "format", formatVersion, "shards", redisdb.Shards).Err(); err != nil {
			return "", callerError(err)
		}
		return s.db.Client().HGet(ctx, meta, "installation").Result()
	}
	p := parser{}
	if f := p.text(values, 1); f != "" && f != strconv.Itoa(formatVersion) {
		return "", fmt.Errorf("the data in Redis has format %s, this program reads %d", f, formatVersion)
	}
	if n := p.text(values, 2); n != "" && n != strconv.Itoa(redisdb.Shards) {
		return "", fmt.Errorf("the data in Redis has %s shards, this program has %d", n, redisdb.Shards)
	}
	return p.text(values, 0), p.err
}
