package dp

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Words returns what the statement means, in sentences for readers who do not know its terms: the protected data, the
// parties that they are protected from, and how much an observer learns. against names these parties, for example
// "the server"; "" leaves them out. The figures are rounded up.
func (s Statement) Words(against string) string {
	if s.Chosen.By == PlainSearch {
		text := s.Chosen.words(s.Delta)
		return strings.ToUpper(text[:1]) + text[1:]
	}
	if math.IsInf(s.Epsilon, 1) {
		return "There is no noise: the results may show anything about any user."
	}
	_, other := s.protected()
	change := other + " the probability of every outcome by a factor of at most e^ε = " + factor(s.Epsilon)
	if s.Delta > 0 {
		change += ", except with probability δ"
	}
	return s.protects(against) + change + ". " + s.sure("An observer who was undecided (odds of 1 to 1)")
}

// Brief is Words without the factor e^ε and the odds.
func (s Statement) Brief(against string) string {
	if s.Chosen.By == PlainSearch || math.IsInf(s.Epsilon, 1) {
		return s.Words(against)
	}
	return s.protects(against) + s.sure("An undecided observer")
}

// protects is the sentence about what is protected from whom, and a space.
func (s Statement) protects(against string) string {
	text := "ε = " + roundUp(s.Epsilon)
	if s.Delta > 0 {
		text += " and δ = " + RoundUp(s.Delta, 3) + " protect "
	} else {
		text += " protects "
	}
	what, _ := s.protected()
	text += what
	if against != "" {
		text += " from " + against
	}
	return text + ". "
}

// sure is the sentence about an observer, and what else limits the statement.
func (s Statement) sure(observer string) string {
	text := observer + " can become at most " + certainty(s.Epsilon) + " sure."
	if s.LocalEpsilon != 0 {
		text += " Without trust in the shuffler ε is " + roundUp(s.LocalEpsilon) + "."
	}
	if s.claims() && s.ClaimedEpsilon < s.Epsilon {
		text += " The published analysis claims ε = " + roundUp(s.ClaimedEpsilon) + ", which does not hold."
	}
	return text + s.Chosen.words(s.Delta)
}

// protected returns the protected data, and the subject and verb of the sentence about neighbours.
func (s Statement) protected() (what, other string) {
	switch {
	case s.Relation == Label:
		return "the label of one example", "Another label in its place changes"
	case s.Relation == PrivatePart:
		return "the label and the private features of one example", "Other ones in their place change"
	case s.Unit == User:
		return "all ratings of one user", "Whether these ratings are in the data or not changes"
	default:
		return "one " + string(s.Unit), "Whether this " + string(s.Unit) + " is in the data or not changes"
	}
}

// factor writes e^ε for people, rounded up to three digits, or from 10^6 on as a power of ten.
func factor(epsilon float64) string {
	if epsilon > 13.8 {
		return fmt.Sprintf("10^%.1f", math.Ceil(epsilon/math.Ln10*10)/10)
	}
	x := math.Exp(epsilon)
	if x < 1000 {
		return RoundUp(x, 3)
	}
	step := math.Pow10(int(math.Log10(x)) - 2)
	whole := strconv.FormatFloat(math.Ceil(x/step)*step, 'f', 0, 64)
	return whole[:len(whole)-3] + "," + whole[len(whole)-3:]
}

// certainty writes the probability 1/(1+e^-ε) in percent, rounded up but never to 100%.
func certainty(epsilon float64) string {
	if epsilon > 25 { // more digits than a person reads
		return fmt.Sprintf("all but 1 in 10^%.0f", math.Floor(epsilon/math.Ln10))
	}
	rest := 100 / (1 + math.Exp(epsilon))
	decimals := max(0, 1-int(math.Floor(math.Log10(rest))))
	unit := math.Pow10(-decimals)
	text := strconv.FormatFloat(100-math.Floor(rest/unit+1e-9)*unit, 'f', decimals, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + "%"
}
