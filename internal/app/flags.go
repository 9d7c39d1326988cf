package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Parse fills cfg from the command line and the environment of the process.
// When that cannot be, it says why and ends the process, and so it does after
// --help or --version.
func Parse(cfg any, program, description string) {
	err := parse(cfg, program, description, os.Args[1:], os.Stdout, os.Exit)
	if err == nil {
		return
	}
	report(os.Stderr, err)
	os.Exit(exitUsage)
}

// report prints an error, one problem a line.
func report(w io.Writer, err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(w, strings.TrimRight(line, "\n"))
	}
}

// parse reports everything at once: what the parser would stop at, one by one,
// and what Validate says of the values.
func parse(cfg any, program, description string, args []string, stdout io.Writer, exit func(int)) error {
	parser, err := kong.New(cfg, kong.Name(program), kong.Description(description), kong.DefaultEnvars("TUNDISH"),
		kong.Vars{"version": fmt.Sprintf("%s %s (%s, %s/%s)", program, Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)},
		kong.Writers(stdout, io.Discard), kong.Exit(exit))
	if err != nil {
		return fmt.Errorf("flags: %w", err)
	}
	var p problems
	flags := flagsOf(parser)
	args = flags.sift(args, &p)
	flags.siftEnvironment(&p)
	if _, err = parser.Parse(args); err != nil {
		if of, ok := errors.AsType[*ConfigError](err); ok {
			p = append(p, of.Problems...)
		} else {
			p.add("%v", err)
		}
	}
	return p.err()
}

// flagSet finds flags by what stands on the command line: --name or -n.
type flagSet map[string]*kong.Flag

func flagsOf(parser *kong.Kong) flagSet {
	set := flagSet{}
	for _, f := range parser.Model.Flags {
		set["--"+f.Name] = f
		if f.Short != 0 {
			set["-"+string(f.Short)] = f
		}
	}
	return set
}

// sift notes what the parser would refuse and gives it the rest, in which each
// value is joined to its flag: alone, one that begins with - would be taken for a flag.
func (set flagSet) sift(args []string, p *problems) (rest []string) {
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		f := set[name]
		switch {
		case f == nil && !strings.HasPrefix(name, "-"):
			p.add("%q is not expected; all that is given has a name, such as --log-level", args[i])
		case f == nil:
			p.add("%s: there is no such flag; see --help", name)
			if !joined && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				i++ // its value, which may be a secret
			}
		case f.IsBool() && joined && !isBool(value):
			p.add("%s: %q is not true or false", name, value)
		case f.IsBool() || joined:
			rest = append(rest, args[i])
		case i+1 == len(args) || set[flagName(args[i+1])] != nil:
			p.add("%s: a value is missing", name)
		default:
			i++
			rest = append(rest, name+"="+args[i])
		}
	}
	return rest
}

// siftEnvironment notes variables that the parser would refuse, and hides them from it.
func (set flagSet) siftEnvironment(p *problems) {
	for _, f := range set {
		for _, variable := range f.Envs {
			if value, ok := os.LookupEnv(variable); ok && f.IsBool() && !isBool(value) {
				p.add("%s: %q is not true or false", variable, value)
				f.Tag.Envs = nil
			}
		}
	}
	slices.Sort(*p) // a map has no order
}

func flagName(arg string) string {
	name, _, _ := strings.Cut(arg, "=")
	return name
}

// isBool says whether the parser reads text as true or false.
func isBool(text string) bool {
	return slices.Contains([]string{"true", "1", "yes", "false", "0", "no"}, strings.ToLower(text))
}
