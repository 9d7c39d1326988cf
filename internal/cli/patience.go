package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	minBackoff  = 100 * time.Millisecond
	maxBackoff  = 10 * time.Second
	maxFailures = 10 // calls in a row that are lost; some 30 s
	worthSaying = time.Second
)

// backoff is how long to wait after n failures in a row: uniform between half
// and the whole of a doubling time.
func backoff(n int) time.Duration {
	d := min(maxBackoff, minBackoff<<min(n-1, 10))
	return d/2 + rand.N(d/2)
}

// patiently makes a call that may be made twice until it is answered: it waits
// as told by 429 and 503, and with a back-off when the call is lost.
func (s *session) patiently(ctx context.Context, r request, say func(format string, args ...any)) (*answer, error) {
	for failures := 0; ; {
		a, err := s.api.do(ctx, r)
		refused, lost := refusal(err)
		var wait time.Duration
		switch {
		case err == nil:
			return a, nil
		case refused != nil && refused.later():
			failures = 0
			wait = max(refused.retryAfter, minBackoff)
		case lost || refused != nil && refused.broken():
			failures++
			if failures == maxFailures {
				return nil, fmt.Errorf("given up after %d tries: %w", failures, err)
			}
			wait = backoff(failures)
		default:
			return nil, err
		}
		if wait >= worthSaying || failures == 1 {
			say("%v; trying again in %s", err, span(wait.Milliseconds()))
		}
		if err := s.wait(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// refusal tells an answer from a call that got none.
func refusal(err error) (refused *apiError, lost bool) {
	refused, _ = errors.AsType[*apiError](err)
	_, lost = errors.AsType[*lostError](err)
	return refused, lost
}

// wait sleeps, unless the command ends first.
func (s *session) wait(ctx context.Context, d time.Duration) error {
	if err := s.sleep(ctx, d); err != nil {
		return why(ctx)
	}
	if ctx.Err() != nil {
		return why(ctx)
	}
	return nil
}
