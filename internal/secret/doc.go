// Package secret gives a worker the values that references in contracts stand
// for, and seals those that are stored. A value is in memory here and on its way
// to the destination, and nowhere else: no error, log line or key of Redis
// holds one in the clear.
package secret
