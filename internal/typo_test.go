package internal_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/typo"
)

// The distances come from textbooks (Levenshtein 1966; kitten and sitting are Wikipedia's).
func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"", "abc", 3}, {"same", "same", 0}} {
		if got := typo.Distance(c.a, c.b); got != c.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"RECALL", "RMSE", "MAE"}
	if got := typo.Nearest("rsme", words, strings.ToLower); got[0] != "RMSE" {
		t.Errorf("nearest to rsme is %v", got)
	}
	if !slices.Equal(words, []string{"RECALL", "RMSE", "MAE"}) {
		t.Errorf("the words were reordered in place: %v", words)
	}
}
