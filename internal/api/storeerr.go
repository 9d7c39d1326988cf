package api

import (
	"context"
	"errors"

	"tundish/internal/job"
)

// errStoreSlow is the cause when a call of the store is given up.
var errStoreSlow = errors.New("the store did not answer in time")

// errStopping is the cause when calls end because the process stops.
var errStopping = errors.New("the enqueuer stops")

// storeError gives an error without a code one: a call that was cut short is
// unavailable, never internal.
func storeError(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*job.Error](err); ok {
		return err
	}
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return unconfirmed(err)
	}
	return err
}

// unconfirmed says that nobody knows whether the store took the jobs.
func unconfirmed(cause error) error {
	return &job.Error{
		Code:   job.CodeUnavailable,
		Detail: "the store did not answer in time, so this request may or may not have been carried out; repeat it with the same Idempotency-Key",
		Cause:  cause,
	}
}

// errGone is for callers that went away; nobody reads the answer.
func errGone(ctx context.Context) error { return unconfirmed(context.Cause(ctx)) }

// storeContext bounds a look into the store.
func storeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, callTimeout, errStoreSlow)
}

// writeContext bounds a change; it goes on when the caller goes away, because
// a change cut in the middle helps nobody.
func writeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return storeContext(context.WithoutCancel(ctx))
}
