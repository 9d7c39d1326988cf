package queue

import "tundish/internal/destination"

// ApplyRequest asks that a destination's contract be stored.
type ApplyRequest struct {
	Name     string
	Contract *destination.Contract
	Written  []byte // the contract as written, JSON
	Source   Source
	// Sealed are secrets of the contract that came with it, by name, sealed. Those
	// that came before stay, as long as the contract refers to them.
	Sealed map[string]string
	// IfVersion is the version the destination must have; 0: any.
	IfVersion int64
	// IfNone asks that no destination of the name exists.
	IfNone bool
	// DryRun checks everything and writes nothing.
	DryRun bool
	// MemoryLost says that the caller has known the destination on another
	// installation: Redis came back empty, so its last slots are not known.
	MemoryLost bool
}
