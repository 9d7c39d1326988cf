package drain

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tundish/internal/destination"
)

// patience is how long a lone job is tried: the back-offs between its attempts.
func patience(r destination.Retry, random func() float64) (total time.Duration) {
	for n := 1; n < r.MaxAttempts; n++ {
		total += backoff(r, n, random())
	}
	return total
}

// An outage that everybody knows must not cost the few jobs that met it: what the
// pages say of how long they are tried.
func TestJobsAreTriedForAsLongAsThePagesSay(t *testing.T) {
	t.Parallel()
	read := func(parts ...string) string {
		text, err := os.ReadFile(filepath.Join(parts...))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	plain := "destinations:\n- name: bank\n  target: {http: {url: \"https://bank.example\"}}\n  limits: [{rate: 50, per: 1s}]\n"
	for name, tc := range map[string]struct {
		file        string
		least, mean time.Duration
	}{
		"defaults": {plain, 30 * time.Second, 2 * time.Minute},
		"sample":   {read("..", "destination", "sample.yaml"), 30 * time.Minute, 55 * time.Minute},
		"webhooks": {read("..", "..", "examples", "webhooks", "destinations.yaml"), 40 * time.Hour, 70 * time.Hour},
	} {
		f, err := destination.ParseFile([]byte(tc.file), name)
		if err != nil || len(f.Destinations) == 0 {
			t.Fatal(err)
		}
		random, sum, short := rand.New(rand.NewPCG(1, 2)), time.Duration(0), 0
		const jobs = 10_000
		for range jobs {
			p := patience(f.Destinations[0].Contract.Retry, random.Float64)
			sum += p
			if p < tc.least {
				short++
			}
		}
		if mean := sum / jobs; short > 2*jobs/1000 || mean < tc.mean {
			t.Errorf("%s: %v on average, want %v; %d of %d less than %v", name, mean, tc.mean, short, jobs, tc.least)
		}
	}
}
