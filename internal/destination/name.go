package destination

import (
	"fmt"
	"strings"
)

const maxNameBytes = 63

// ValidName says whether name may be the name of a destination, a class, a
// limit or a set: 1 to 63 lower-case letters, digits, dots, underscores and
// hyphens, beginning with a letter or digit. Such names need no escaping in a
// URL, a key, a header or a metric label.
func ValidName(name string) error {
	if validName(name) {
		return nil
	}
	return fmt.Errorf("%s is not a name: give %s", quoted(name), wantName)
}

const wantName = "1 to 63 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit"

func validName(name string) bool {
	if name == "" || len(name) > maxNameBytes || strings.Trim(name[:1], "._-") == "" {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
	})
}

// nearest finds the known name that was probably meant; empty when none is close.
func nearest(name string, known []string) string {
	if name == "" || len(name) > maxNameBytes {
		return ""
	}
	best, least := "", len(name)/3+1
	for _, k := range known {
		if d := distance(plain(name), plain(k)); d <= least && (best == "" || d < least) {
			best, least = k, d
		}
	}
	return best
}

// plain drops what people vary when they misremember a name: maxInFlight is max_in_flight.
func plain(name string) string { return separators.Replace(strings.ToLower(name)) }

var separators = strings.NewReplacer("_", "", "-", "")

// distance is the number of letters to insert, delete or replace between a and
// b (Levenshtein, by the row-wise method of Wagner and Fischer).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
