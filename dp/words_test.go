package dp

import (
	"math"
	"strings"
	"testing"
)

// The meaning of a budget, by the definition: at ε = ln 3 odds of 1 to 1 become at most 3 to 1. The figures of the other
// cases are computed by hand: e^10 = 22,026.5, and 1 in 22,027.5 is 0.0045%.
func TestWords(t *testing.T) {
	of := func(epsilon, delta float64, unit Unit, relation Relation) Statement {
		return Statement{Epsilon: epsilon, Delta: delta, Unit: unit, Relation: relation, Accountant: RDP, Sampling: NoSampling, Noise: SkellamNoise}
	}
	shuffled, claimed, donated := of(2, 0, Rating, AddRemove), of(2, 1e-5, User, ZeroOut), of(2, 1e-5, User, ZeroOut)
	donated.Open = 3
	shuffled.LocalEpsilon, claimed.ClaimedEpsilon = 7, 1
	for _, c := range []struct {
		s    Statement
		want string
	}{
		{of(math.Log(3), 1e-5, User, ZeroOut), "ε = 1.099 and δ = 1e-05 protect all ratings of one user from the server. Whether these ratings are in the data or not changes the probability of every outcome by a factor of at most e^ε = 3, except with probability δ. An observer who was undecided (odds of 1 to 1) can become at most 75% sure."},
		{of(10, 1e-5, User, AddRemove), "at most e^ε = 22,100, except with probability δ. An observer who was undecided (odds of 1 to 1) can become at most 99.9955% sure."},
		{of(20, 1e-6, Rating, AddRemove), "protect one rating from the server. Whether this rating is in the data or not changes the probability of every outcome by a factor of at most e^ε = 10^8.7,"},
		{of(1, 1e-6, Example, Label), "protect the label of one example from the server. Another label in its place changes"},
		{of(1, 1e-6, Example, PrivatePart), "protect the label and the private features of one example from the server. Other ones in their place change the"},
		{shuffled, "ε = 2 protects one rating from the server. Whether this rating is in the data or not changes the probability of every outcome by a factor of at most e^ε = 7.39. An"},
		{shuffled, "sure. Without trust in the shuffler ε is 7."},
		{claimed, "sure. The published analysis claims ε = 1, which does not hold."},
		{donated, "sure. This covers all users but the 3 who gave their ratings openly."},
		{of(math.Inf(1), 1e-5, User, ZeroOut), "There is no noise: the results may show anything about any user."},
	} {
		if got := c.s.Words("the server"); !strings.Contains(got, c.want) {
			t.Errorf("%s: no %q in\n%s", c.s, c.want, got)
		}
	}
	if got := of(1, 1e-5, User, ZeroOut).Words(""); !strings.HasPrefix(got, "ε = 1 and δ = 1e-05 protect all ratings of one user. ") {
		t.Error(got)
	}
	// Brief leaves out the middle sentence and the odds, and nothing that limits the statement.
	plain := of(1, 1e-5, User, ZeroOut)
	plain.Chosen.By = PlainSearch
	for _, s := range []Statement{plain, of(math.Inf(1), 1e-5, User, ZeroOut)} {
		if got := s.Brief("the server"); got != s.Words("the server") {
			t.Errorf("%s: in brief %q, want %q", s, got, s.Words("the server"))
		}
	}
	if got, want := shuffled.Brief("the server"), "ε = 2 protects one rating from the server. An undecided observer can become at most 89% sure. Without trust in the shuffler ε is 7."; got != want {
		t.Errorf("in brief %q, want %q", got, want)
	}
	if got := claimed.Brief(""); !strings.HasSuffix(got, "The published analysis claims ε = 1, which does not hold.") {
		t.Error(got)
	}
}

// Odds of e^ε to 1 are 1/(1+e^-ε), by a calculator: 0.9933071 at 5, 0.9999999979 at 20. No budget makes it 100%.
func TestCertaintyIsBelowAll(t *testing.T) {
	t.Parallel()
	for e, want := range map[float64]string{5: "99.34%", 20: "99.9999998%", 100: "all but 1 in 10^43"} {
		if got := certainty(e); got != want {
			t.Errorf("ε = %v: %s, want %s", e, got, want)
		}
	}
}
