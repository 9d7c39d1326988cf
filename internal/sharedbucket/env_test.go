package sharedbucket

import (
	"context"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// rememberMain runs commands, separated by blanks, and answers after which of them
// what is remembered of the set differs from what Redis says.
const rememberMain = `
local key, wrong = K.waiting, {}
local function differs(time)
  local z = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return first_score(key) ~= tonumber(z[2] or '') or size_of(key) ~= call('ZCARD', key)
    or score_of(key, 'b') ~= tonumber(call('ZSCORE', key, 'b') or '')
    or table.concat(due(key, time, 2), ' ') ~= table.concat(call('ZRANGEBYSCORE', key, '-inf', time, 'LIMIT', 0, 2), ' ')
end
for i, line in ipairs(ARGV) do
  local words = {}
  for w in string.gmatch(line, '%S+') do words[#words + 1] = w end
  local command = table.remove(words, 1)
  if command == 'size' then size_of(key) elseif command == 'first' then first_score(key) else write(command, key, words) end
  if i % 3 == 0 and differs(5) then wrong[#wrong + 1] = i .. ' ' .. line end
end
return wrong
`

var rememberScript = join("remember_test", rememberMain)

// TestRememberedSetsFollowWrites runs random writes, asking now and then, in one call.
func TestRememberedSetsFollowWrites(t *testing.T) {
	t.Parallel()
	commands := rapid.SampledFrom([]string{"size", "first", "ZADD 1 a", "ZADD 9 a 2 b", "ZADD 3 c 3 d 7 a", "ZREM a", "ZREM a b x", "ZREM c d",
		"ZINCRBY 4 b", "ZINCRBY -3 e", "ZREMRANGEBYSCORE -inf 2", "ZREMRANGEBYRANK 0 -3"})
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			b := openBench(t, backend)
			rapid.Check(t, func(t *rapid.T) {
				lines := rapid.SliceOfN(commands, 1, 30).Draw(t, "commands")
				args := make([]any, len(lines))
				for i, l := range lines {
					args[i] = l
				}
				v, err := b.db.Run(context.Background(), rememberScript, b.keys, args...)
				if err != nil {
					t.Fatal(err)
				}
				if wrong := v.([]any); len(wrong) > 0 {
					t.Fatalf("%v\nafter %s", wrong, strings.Join(lines, ", "))
				}
			})
		})
	}
}
