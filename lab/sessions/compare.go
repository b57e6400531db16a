package sessions

import (
	"math"
	"slices"
)

// ArmComparison compares learning on with another arm by the RMSE of all periods after the first. In the first both are the same.
type ArmComparison struct {
	With   Arm     `json:"with"`
	Seeds  int     `json:"seeds"`
	Better int     `json:"better"` // seeds in which learning on has the smaller RMSE
	Gain   float64 `json:"gain"`   // mean over seeds by which the RMSE of learning on is smaller
	// Deviation is the standard deviation of the gain over seeds; 0 of a single seed.
	Deviation float64 `json:"deviation"`
	// BySession has the mean gain after each session, from the second on.
	BySession []float64 `json:"by_session"`
}

// compare compares learning on with each other arm, seed by seed.
func compare(points []Point) []ArmComparison {
	at := make(map[Arm]map[uint64]map[int]float64)
	var seeds []uint64
	last := 0
	for _, p := range points {
		if at[p.Arm] == nil {
			at[p.Arm] = make(map[uint64]map[int]float64)
		}
		if at[p.Arm][p.Seed] == nil {
			at[p.Arm][p.Seed] = make(map[int]float64)
		}
		at[p.Arm][p.Seed][p.Session] = p.RMSE
		if !slices.Contains(seeds, p.Seed) {
			seeds = append(seeds, p.Seed)
		}
		last = max(last, p.Session)
	}
	if last < 2 {
		return nil
	}
	var list []ArmComparison
	for _, arm := range Arms[1:] {
		c := ArmComparison{With: arm, Seeds: len(seeds), BySession: make([]float64, last-1)}
		var gains []float64
		for _, seed := range seeds {
			gain := 0.0
			for s := 2; s <= last; s++ {
				d := at[arm][seed][s] - at[LearningOn][seed][s]
				gain += d / float64(last-1)
				c.BySession[s-2] += d / float64(len(seeds))
			}
			gains = append(gains, gain)
			c.Gain += gain / float64(len(seeds))
			if gain > 0 {
				c.Better++
			}
		}
		if len(gains) > 1 {
			for _, g := range gains {
				c.Deviation += (g - c.Gain) * (g - c.Gain) / float64(len(gains)-1)
			}
			c.Deviation = math.Sqrt(c.Deviation)
		}
		list = append(list, c)
	}
	return list
}
