package api

import (
	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
)

// The sources of destinations.
const (
	kindAPI      = "api"
	kindFile     = "file"
	kindOrphaned = "orphaned" // its file no longer names it
)

// source is who will own the contract.
func (in *putInput) source() (queue.Source, error) {
	switch {
	case in.Set == "" && in.Revision != 0:
		return queue.Source{}, invalid(fieldErrors{{Pointer: "/query/revision", Detail: "only a set of files has a revision; give set too", Code: job.CodeInvalid}})
	case in.Set == "":
		return queue.Source{Kind: kindAPI}, nil
	}
	return queue.Source{Kind: kindFile, Set: in.Set, Revision: in.Revision}, checkSet(in.Set)
}

// checkSet looks at the name of a set; none is good.
func checkSet(set string) error {
	if set == "" {
		return nil
	}
	err := destination.ValidName(set)
	if err == nil {
		return nil
	}
	return invalid(fieldErrors{{Pointer: "/query/set", Detail: err.Error(), Code: job.CodeInvalid}})
}
