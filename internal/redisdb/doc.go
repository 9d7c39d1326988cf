// Package redisdb owns the connection to Redis: it opens clients from URLs,
// holds the one table of key names, loads and runs scripts, tells failures
// apart, maps the clock of Redis to the monotonic clock of this process, and
// checks that a server is one that Tundish can rely on.
//
// Every call is bounded by Config.CallTimeout, whatever client is used and
// however often it retries.
package redisdb
