// Package cli is the command line `tundish`: it reads flags, talks to the HTTP
// API and shows what it says. It knows neither Redis nor a service.
//
// Data goes to stdout, talk and progress to stderr. What a script needs to
// decide on is the exit code: see the constants.
package cli
