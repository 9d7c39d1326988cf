package api

import (
	"context"
	"strconv"
	"strings"

	"tundish/internal/job"
)

// Conditions are the headers that guard a change against another's.
type Conditions struct {
	DestinationPath
	IfMatch     string `header:"If-Match" doc:"ETag the destination must have"`
	IfNoneMatch string `header:"If-None-Match" enum:"*" doc:"* : only when there is no such destination"`
}

// ifVersion reads If-Match as the version to ask the store for; 0: any. What
// only a look can decide (* and lists) is decided here, and the version found
// is still asked for, so that nothing slips in between.
func (a *API) ifVersion(ctx context.Context, in *Conditions) (int64, error) {
	if in.IfMatch == "" {
		return 0, nil
	}
	if in.IfNoneMatch != "" {
		return 0, job.Errorf(job.CodeInvalid, "If-Match and If-None-Match cannot hold together")
	}
	tags := strings.Split(in.IfMatch, ",")
	if len(tags) == 1 && strings.TrimSpace(tags[0]) != "*" {
		if v, ok := versionOf(tags[0]); ok {
			return v, nil
		}
		return 0, mismatch()
	}
	d, err := a.destination(ctx, in.Destination)
	if job.CodeOf(err) == job.CodeDestinationNotFound {
		return 0, mismatch()
	}
	if err != nil {
		return 0, err
	}
	for _, tag := range tags {
		if v, ok := versionOf(tag); strings.TrimSpace(tag) == "*" || ok && v == d.Version {
			return d.Version, nil
		}
	}
	return 0, mismatch()
}

func mismatch() error {
	return job.Errorf(job.CodeVersionMismatch, "no ETag of If-Match is that of the destination")
}

// versionOf reads one strong ETag of ours; a weak one never matches.
func versionOf(tag string) (int64, bool) {
	tag = strings.TrimSpace(tag)
	if len(tag) < 3 || tag[0] != '"' || tag[len(tag)-1] != '"' {
		return 0, false
	}
	v, err := strconv.ParseInt(tag[1:len(tag)-1], 10, 64)
	return v, err == nil && v > 0 && etag(v) == tag
}
