package results

import (
	"encoding/json"

	"github.com/fedsim/fedsim/eval"
)

// RankingSummary is the part of Summary about lists of recommendations. In JSON it is one object,
// with the metrics of lists as in recall@10.
type RankingSummary struct {
	*eval.Ranking                   // with implicit feedback: has the metric that compares runs
	Lists         *eval.ListQuality // nil without cutoffs, or if no user has a relevant item
}

// MarshalJSON writes one object. A number that both parts have is written once.
func (r RankingSummary) MarshalJSON() ([]byte, error) {
	out := []byte("{")
	there := make(map[string]json.RawMessage)
	if r.Ranking != nil {
		b, err := json.Marshal(r.Ranking)
		if err != nil {
			return nil, err
		}
		if err = json.Unmarshal(b, &there); err != nil {
			return nil, err
		}
		out = b[:len(b)-1]
	}
	if r.Lists == nil {
		return append(out, '}'), nil
	}
	for _, x := range r.Lists.Named() {
		if _, twice := there[x.Name]; twice {
			continue
		}
		var err error
		if out, err = appendNumber(out, x.Name, x.Value); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// UnmarshalJSON reads the object of MarshalJSON.
func (r *RankingSummary) UnmarshalJSON(text []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	*r = RankingSummary{}
	if _, ok := all["slices"]; ok {
		r.Ranking = new(eval.Ranking)
		if err := json.Unmarshal(text, r.Ranking); err != nil {
			return err
		}
	}
	numbers := make(map[string]float64)
	for name, raw := range all {
		var v float64
		if json.Unmarshal(raw, &v) == nil {
			numbers[name] = v
		}
	}
	r.Lists = eval.ListQualityOf(numbers)
	return nil
}
