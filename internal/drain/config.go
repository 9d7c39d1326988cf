package drain

import (
	"log/slog"
	"math/rand/v2"
	"time"
)

const (
	defaultConcurrency = 1000
	defaultGrace       = 25 * time.Second

	// keepFor is how long a worker keeps a lane before it lets others have it.
	keepFor = time.Second
	// lookEvery is how often a worker looks for due lanes at least.
	lookEvery = 500 * time.Millisecond
	// flushWithin is how long results wait for a turn to ride on.
	flushWithin = 50 * time.Millisecond
	// flushAt is how many results go alone at once.
	flushAt = 100
	// backOff is the pause after a failure of Redis.
	backOff = time.Second

	// pipelines is how many pipelines of turns are under way at once. They are short: one
	// comes back as a whole, and the slots of its first turn are to come in time.
	pipelines   = 16
	turnsAtOnce = 8

	minHorizon = 100 * time.Millisecond
	maxHorizon = 400 * time.Millisecond
	maxLead    = maxHorizon / 2
	minLead    = 500 * time.Microsecond
	maxSlack   = maxHorizon
)

func (c *Config) fill() {
	if c.Concurrency <= 0 {
		c.Concurrency = defaultConcurrency
	}
	if c.StopGrace <= 0 {
		c.StopGrace = defaultGrace
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics(nil)
	}
}
