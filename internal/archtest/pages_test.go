package archtest

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	pageLink   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading    = regexp.MustCompile(`(?m)^#+ (.+)$`)
	noAnchor   = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	metricName = regexp.MustCompile(`\btundish_[a-z_]+\b`)
	codeBlock  = regexp.MustCompile("(?s)```.*?```")
)

// pages are the texts of the repository that people read.
func pages(t *testing.T) (names []string) {
	t.Helper()
	for _, name := range files(t) {
		if path.Ext(name) == ".md" {
			names = append(names, name)
		}
	}
	return names
}

// anchors are the fragments by which the headings of a page are linked.
func anchors(text string) (all []string) {
	for _, h := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		all = append(all, strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return all
}

// Links between pages lead to a file or folder that exists, and to a heading of it.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	all := files(t)
	for _, page := range pages(t) {
		for _, m := range pageLink.FindAllStringSubmatch(codeBlock.ReplaceAllString(read(t, page), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target, anchor, _ := strings.Cut(m[1], "#")
			to := page
			if target != "" {
				to = path.Join(path.Dir(page), target)
			}
			if !slices.ContainsFunc(all, func(name string) bool { return name == to || strings.HasPrefix(name, to+"/") }) {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
			} else if anchor != "" && !slices.Contains(anchors(read(t, to)), anchor) {
				t.Errorf("%s links to %s, and %s has no such heading", page, m[1], to)
			}
		}
	}
}

// The page of metrics is held against the programs, and the others against it.
func TestPagesNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	const source = "docs/metrics.md"
	known := metricName.FindAllString(read(t, source), -1)
	for _, page := range pages(t) {
		for _, name := range metricName.FindAllString(read(t, page), -1) {
			if !slices.Contains(known, name) {
				t.Errorf("%s names %s, which is not on %s", page, name, source)
			}
		}
	}
}
