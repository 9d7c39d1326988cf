package queue

import (
	"embed"

	"tundish/internal/idempotency"
	"tundish/internal/redisdb"
	"tundish/internal/sharedbucket"
)

//go:embed *.lua
var luaFiles embed.FS

// lua reads one of this package's parts. A missing one is a mistake of the build.
func lua(name string) redisdb.Part {
	source, err := luaFiles.ReadFile(name + ".lua")
	if err != nil {
		panic(err)
	}
	return redisdb.Part{Name: name, Source: string(source)}
}

// open and shut put what stands between them into a function of its own. A call
// makes all functions of its script anew, and Lua looks for each local that one of
// them uses along all that were used before; what an outer function has looked
// up is only copied. So the tools are a level above the mechanisms, and these
// above the main parts: that halves what a call costs before it does anything.
var (
	open = redisdb.Part{Name: "open", Source: "local function inner()"}
	shut = redisdb.Part{Name: "shut", Source: "end\nreturn inner()"}
)

// script joins the parts of a lane script in their one order: keys, shared
// tools, the script's own arguments, then the mechanisms, then its main parts.
func script(name string, mains ...string) *redisdb.Script {
	parts := []redisdb.Part{redisdb.Prelude(), sharedbucket.EnvLua(), lua(name + "_args"), open}
	parts = append(parts, sharedbucket.Parts()...)
	for _, n := range []string{"adaptive", "lane", "envelope", "fair", "policy"} {
		parts = append(parts, lua(n))
	}
	parts = append(parts, redisdb.Part{Name: "keys", Source: idempotency.Lua}, open)
	for _, n := range append([]string{"ends", "recover", "move", "trim", "look"}, mains...) {
		parts = append(parts, lua(n))
	}
	return redisdb.NewScript(name, append(parts, shut, shut)...)
}

var (
	turnScript   = script("turn", "late", "settle", "choose", "lease", "turn")
	pushScript   = script("push", "push", "push_main")
	applyScript  = script("apply", "admin", "apply")
	pauseScript  = script("pause", "admin", "pause")
	deleteScript = script("delete", "delete")
	readScript   = script("read", "oldest", "read")
	surveyScript = script("survey", "oldest", "survey")
	mendScript   = script("mend", "mend")
	listScript   = script("list", "list")
	actScript    = script("act", "act", "act_main")
	glanceScript = redisdb.NewScript("glance", lua("glance"))
	startScript  = redisdb.NewScript("start", redisdb.Prelude(), sharedbucket.EnvLua(), lua("envelope"), lua("start"))
	claimScript  = redisdb.NewScript("claim", lua("claim_args"), sharedbucket.EnvLua(), sharedbucket.ClockLua(), lua("claim"))
)

// Scripts lists every script, for loading ahead and for tests of their headers.
func Scripts() []*redisdb.Script {
	return []*redisdb.Script{turnScript, pushScript, applyScript, pauseScript, deleteScript, readScript, surveyScript, mendScript, listScript, actScript, glanceScript, startScript, claimScript}
}
