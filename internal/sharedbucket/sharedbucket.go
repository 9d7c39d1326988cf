// Package sharedbucket owns the limits: the algorithms as pure Lua functions,
// the slots that all limits of a lane allow, the tolerance and guard that make
// them hold in any sliding window, and logical time. Twin (twin.go) says in Go what the
// Lua must answer.
package sharedbucket

import (
	_ "embed"

	"tundish/internal/redisdb"
)

// The parts, in the order in which a script needs them.
var (
	//go:embed env.lua
	envLua string
	//go:embed clock.lua
	clockLua string
	//go:embed leaky_bucket.lua
	leakyLua string
	//go:embed token_bucket.lua
	tokenLua string
	//go:embed tolerance.lua
	toleranceLua string
	//go:embed limits.lua
	limitsLua string
	//go:embed slots.lua
	slotsLua string
)

// EnvLua declares what all parts share; it stands before a script's own arguments.
func EnvLua() redisdb.Part { return redisdb.Part{Name: "env", Source: envLua} }

// Parts lists the algorithms, slots and clock.
func Parts() []redisdb.Part {
	return []redisdb.Part{
		ClockLua(),
		{Name: "leaky_bucket", Source: leakyLua},
		{Name: "token_bucket", Source: tokenLua},
		{Name: "tolerance", Source: toleranceLua},
		{Name: "limits", Source: limitsLua},
		{Name: "slots", Source: slotsLua},
	}
}

// ClockLua is the part that reads the clock of a shard.
func ClockLua() redisdb.Part { return redisdb.Part{Name: "clock", Source: clockLua} }

// MaxHorizon is how far ahead of logical time a slot is granted at most, in
// µs; slots.lua holds the same figure.
const MaxHorizon = 400_000

// MaxTolerance is the most by which a write may be behind its slot, in µs.
const MaxTolerance = 1_000_000
