package api

import (
	"context"
	"strings"
	"unicode"

	"tundish/internal/destination"
	"tundish/internal/job"
)

// reasonSchema describes the body of pause and resume to readers.
type reasonSchema struct {
	_ struct{} `json:"-" additionalProperties:"false"`

	Reason string `json:"reason,omitempty" maxLength:"500" doc:"Shown beside the state"`
}

const (
	reasonLength = 500 // bytes
	reasonBody   = 16 << 10
)

func (a *API) pause(ctx context.Context, in *DestinationPath) (*changeOutput, error) {
	reason, err := readReason(ctx, in.Destination)
	if err != nil {
		return nil, newProblem(ctx, err)
	}
	sctx, cancel := writeContext(ctx)
	defer cancel()
	effective, err := a.cfg.Store.Pause(sctx, in.Destination, reason)
	if err != nil {
		return nil, a.problem(ctx, storeError(sctx, err))
	}
	return changed(in.Destination, effective), nil
}

func (a *API) resume(ctx context.Context, in *DestinationPath) (*changeOutput, error) {
	if _, err := readReason(ctx, in.Destination); err != nil {
		return nil, newProblem(ctx, err)
	}
	sctx, cancel := writeContext(ctx)
	defer cancel()
	effective, err := a.cfg.Store.Resume(sctx, in.Destination)
	if err != nil {
		return nil, a.problem(ctx, storeError(sctx, err))
	}
	return changed(in.Destination, effective), nil
}

// readReason reads {"reason"}; no body at all is fine.
func readReason(ctx context.Context, name string) (string, error) {
	if destination.ValidName(name) != nil {
		return "", noDestination(name)
	}
	data, _, err := readBody(ctx, reasonBody, typeJSON)
	if err != nil || len(data) == 0 {
		return "", err
	}
	if err := checkJSON(data); err != nil {
		return "", err
	}
	return parseReason(data)
}

func parseReason(data []byte) (reason string, err error) {
	var f fieldErrors
	list, ok := members(data)
	if !ok {
		f.bad("", `give an object such as {"reason": "maintenance"}`)
	}
	f.once("", list, func(m member) {
		at := token(m.name)
		switch m.name {
		case "reason":
			reason, ok = f.text(at, m.value)
			if ok && (len(reason) > reasonLength || strings.ContainsFunc(reason, unicode.IsControl)) {
				f.bad(at, "give at most %d bytes without control characters", reasonLength)
			}
		case "expires_in":
			f.unsupported(at, "a pause that ends by itself is not built yet")
		default:
			f.bad(at, "unknown field; there is reason")
		}
	})
	return reason, invalid([]job.FieldError(f))
}
