package cli

import (
	"net/url"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"tundish/internal/destination"
)

const description = `The command line of Tundish, an outbound job throttler.

It talks to the HTTP API of an enqueuer (--server). A key is read from TUNDISH_KEY or from --key-file.

Exit codes: 0 done, 1 failed, 2 bad usage or config, 3 differences found, 4 not allowed, 5 some jobs refused, 6 timed out.`

// grammar is every command with its flags.
type grammar struct {
	flags

	Init     initCmd     `cmd:"" help:"Write a destinations file to start from."`
	Validate validateCmd `cmd:"" help:"Check a destinations file; talks to nobody."`
	Apply    applyCmd    `cmd:"" help:"Make the destinations as the file says."`
	Get      getCmd      `cmd:"" help:"Show destinations, or one of them."`
	Delete   deleteCmd   `cmd:"" help:"Delete a destination, with what is kept of its jobs."`
	Push     pushCmd     `cmd:"" help:"Push one job or a file of them; waits as told while the queue is full."`
	Job      jobCmd      `cmd:"" help:"Show a job."`
	Jobs     jobsCmd     `cmd:"" help:"List jobs of a destination."`
	Cancel   cancelCmd   `cmd:"" help:"Cancel a job that no worker holds."`
	Redrive  redriveCmd  `cmd:"" help:"Send a dead or unknown job again, or all that are dead."`
	Resolve  resolveCmd  `cmd:"" help:"Say of an unknown job whether it arrived."`
	Erase    eraseCmd    `cmd:"" help:"Erase a job that has ended, with its payload."`
	Purge    purgeCmd    `cmd:"" help:"Cancel or erase jobs of some states."`

	Operations operationsCmd `cmd:"" help:"Show redrives and purges of many jobs, or one of them."`

	Pause  pauseCmd  `cmd:"" help:"Stop sending to a destination."`
	Resume resumeCmd `cmd:"" help:"Send to a destination again; if its breaker is open, probe it at once."`
	Keys   struct {
		Create keysCreateCmd `cmd:"" help:"Make a key and its entry for keys.yaml."`
	} `cmd:"" help:"Keys of producers."`
	Bank    bankCmd    `cmd:"" help:"Run a strict bank to call; it judges the rate it sees."`
	Version versionCmd `cmd:"" help:"Show the version."`
}

// flags are those of every command. All are text until check has looked at
// them, so that every bad value is reported at once.
type flags struct {
	Server  string `default:"http://127.0.0.1:8080" placeholder:"URL" group:"always" help:"The API; also TUNDISH_SERVER. Default: ${default}."`
	KeyFile string `name:"key-file" placeholder:"FILE" group:"always" help:"File with the key, instead of TUNDISH_KEY; also TUNDISH_KEY_FILE."`
	Output  string `short:"o" default:"table" placeholder:"FORM" group:"always" help:"table, json, yaml or name; also TUNDISH_OUTPUT."`
	Timeout string `placeholder:"DURATION" group:"always" help:"Give up after so long, such as 30s; also TUNDISH_TIMEOUT. Default: never, but 30s for each request."`
	Yes     bool   `group:"always" help:"Do not ask."`
	Quiet   bool   `short:"q" group:"always" help:"No talk and no progress."`
}

// The forms of output.
const (
	formTable = "table"
	formJSON  = "json"
	formYAML  = "yaml"
	formName  = "name"
)

func (f *flags) check(p *problems) {
	if why := badServer(f.Server); why != "" {
		p.add("--server: %s", why)
	}
	if !slices.Contains([]string{formTable, formJSON, formYAML, formName}, f.Output) {
		p.add("--output: %q is not allowed; give table, json, yaml or name", f.Output)
	}
	if f.Timeout != "" {
		p.duration("--timeout", f.Timeout)
	}
}

// badServer says what is wrong with the address of the API. It does not repeat
// an address that holds what may be secret.
func badServer(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return "give a URL such as http://127.0.0.1:8080"
	case u.User != nil:
		return "leave out user and password; a key belongs into TUNDISH_KEY or --key-file"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "leave out what stands behind ? or #"
	}
	return ""
}

// fromEnvironment are the flags that a variable may give. Flags of commands
// are not among them: push --key is no secret, and TUNDISH_KEY is.
var fromEnvironment = map[string]string{
	"server": "TUNDISH_SERVER", "key-file": "TUNDISH_KEY_FILE",
	"output": "TUNDISH_OUTPUT", "timeout": "TUNDISH_TIMEOUT",
}

// environment fills flags that are not given on the command line.
func environment(getenv func(string) string) kong.ResolverFunc {
	return func(_ *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
		variable, ok := fromEnvironment[flag.Name]
		if !ok || parent.App == nil {
			return nil, nil //nolint:nilnil // kong's way to say: not here
		}
		if value := getenv(variable); value != "" {
			return value, nil
		}
		return nil, nil //nolint:nilnil // as above
	}
}

// commands adds what the programs bring.
func (p Programs) commands() []kong.Option {
	var options []kong.Option
	if p.Demo != nil {
		options = append(options, kong.DynamicCommand("demo",
			"Try it: everything in one process on embedded Redis, with a strict bank and its verdict.", "", &demoCmd{}))
	}
	if p.Dev != nil {
		options = append(options, kong.DynamicCommand("dev",
			"Develop against it: API, worker and a bank in one process on embedded Redis, until stopped.", "", &devCmd{}))
	}
	return options
}

// checkName reports what cannot be the name of a destination.
func checkName(p *problems, name string) {
	if err := destination.ValidName(name); err != nil {
		p.add("%v", err)
	}
}

// checkJob reports what cannot be a job of a destination.
func checkJob(p *problems, name, id string) {
	checkName(p, name)
	checkID(p, id)
}

// checkID reports what would lead to another path than that of an id. Beyond
// that ids are the server's.
func checkID(p *problems, id string) {
	if id == "" || id == "." || id == ".." {
		p.add("%q is not an id", id)
	}
}

// header splits "Name: value".
func header(text string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(text, ":")
	return strings.TrimSpace(name), strings.TrimSpace(value), ok && strings.TrimSpace(name) != ""
}

// joined joins each value to its flag where the value begins with -: alone, it
// would be taken for a flag and stop the parser, with nothing said of the rest.
func joined(parser *kong.Kong, args []string) []string {
	takes := map[string]bool{} // flag → whether a value follows
	between := map[string]string{}
	for _, node := range append(parser.Model.Leaves(false), parser.Model.Node) {
		for _, f := range node.Flags {
			takes["--"+f.Name], between["--"+f.Name] = !f.IsBool(), "="
			if f.Short != 0 {
				takes["-"+string(f.Short)] = !f.IsBool()
			}
		}
	}
	var out []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(out, args[i:]...)
		}
		if takes[args[i]] && i+1 < len(args) && isValue(takes, args[i+1]) {
			out = append(out, args[i]+between[args[i]]+args[i+1])
			i++
			continue
		}
		out = append(out, args[i])
	}
	return out
}

// isValue says whether what stands behind a flag is its value though it begins with -.
func isValue(takes map[string]bool, arg string) bool {
	name, _, _ := strings.Cut(arg, "=")
	_, known := takes[name]
	return len(arg) > 1 && arg[0] == '-' && arg != "--" && !known
}
