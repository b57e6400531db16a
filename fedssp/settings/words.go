package settings

// These words name choices that fedsim makes unless the operator does.
const (
	yes = "yes"
	no  = "no"
)

// exact names an encoder whose best parameters are solved for: a linear encoder with an offset for
// each item, and with learned priors ([solver.Pooled]).
const exact = "exact"

// Either returns a, or b if the condition is false.
func Either(condition bool, a, b float64) float64 {
	if condition {
		return a
	}
	return b
}

func yesIf(v bool) string {
	if v {
		return yes
	}
	return no
}

// These words name what rankings learn.
const (
	embeddings = "embeddings"
	popularity = "popularity"
)
