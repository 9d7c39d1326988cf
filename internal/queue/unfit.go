package queue

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tundish/internal/job"
)

// fieldUnfit is the field of the state that says why a worker cannot send to
// the lane, and until when that is believed: "µs of TIME|reason".
const fieldUnfit = "unfit"

// MarkUnfit shows for a time that a worker cannot send to a lane, and why. It
// keeps nobody from it: other workers may lack nothing. An empty reason takes
// the mark away.
func (s *Store) MarkUnfit(ctx context.Context, lane, reason string, lasts time.Duration) error {
	keys, err := s.db.Keys().Lane(lane)
	if err != nil {
		return err
	}
	if reason == "" {
		return s.db.Client().HDel(ctx, keys.State(), fieldUnfit).Err()
	}
	now, err := s.db.Client().Time(ctx).Result()
	if err != nil {
		return err
	}
	return s.db.Client().HSet(ctx, keys.State(), fieldUnfit, fmt.Sprintf("%d|%s", now.Add(lasts).UnixMicro(), reason)).Err()
}

// unfit says why a worker cannot send to the lane; empty when none has told lately.
func (l *lane) unfit() string {
	until, reason, _ := strings.Cut(l.state[fieldUnfit], "|")
	at, err := strconv.ParseInt(until, 10, 64)
	if err != nil || !l.now.Before(time.UnixMicro(at)) {
		return ""
	}
	return "a worker cannot send: " + reason
}

// waitsForFitness takes into a ready job's status that a worker cannot send it.
func (st *Status) waitsForFitness(l *lane) {
	if st.State == job.Ready && l.unfit() != "" {
		st.WaitingFor, st.EstimatedSendAt = faultyState, time.Time{}
	}
}
