// Command tundish is the command line of Tundish.
package main

import (
	"os"

	"tundish/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
