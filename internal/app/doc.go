// Package app wires the services together, starts and stops them. It is the
// only place that knows all concrete types; the programs add flags, signals and
// the exit code.
package app
