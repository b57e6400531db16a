package audit

// statistic is a number by which an attacker tells runs apart: the larger it is, the likelier the unit is there.
type statistic struct {
	name string
	// learn makes the number's function from runs.
	learn func(*[worlds][]view) func(view) float64
}

// likelihoodRatio is the ratio of likelihoods by the stated law, which needs no learning.
var likelihoodRatio = statistic{"attack by the ratio of likelihoods", func(*[worlds][]view) func(view) float64 {
	return func(v view) float64 { return v.likelihood }
}}

// learnt is a weighted sum of everything seen. It finds noise that does not follow its law, and removals that betray what stays.
var learnt = statistic{"attack by a learnt sum of all that is seen", func(runs *[worlds][]view) func(view) float64 {
	weights := discriminant(runs)
	return func(v view) float64 {
		var sum float64
		for k, x := range v.feature {
			sum += weights[k] * x
		}
		return sum
	}
}}

// apply computes a number for the runs of both worlds.
func apply(of func(view) float64, views *[worlds][]view) *half {
	var h half
	for w, all := range views {
		for _, v := range all {
			h[w] = append(h[w], of(v))
		}
	}
	return &h
}

// discriminant is Fisher's: the inverse of the covariance within worlds times the difference
// of their means. A feature that never varies gets no weight.
func discriminant(views *[worlds][]view) [features]float64 {
	var mean [worlds][features]float64
	for w, all := range views {
		for _, v := range all {
			for k, x := range v.feature {
				mean[w][k] += x / float64(len(all))
			}
		}
	}
	var m [features][features + 1]float64 // covariance, and the difference behind it
	for w, all := range views {
		for _, v := range all {
			for i := range features {
				for j := range features {
					m[i][j] += (v.feature[i] - mean[w][i]) * (v.feature[j] - mean[w][j]) / float64(worlds*len(all))
				}
			}
		}
	}
	for i := range features {
		m[i][features] = mean[1][i] - mean[0][i]
		if m[i][i] == 0 {
			m[i] = [features + 1]float64{}
			m[i][i] = 1
		}
		m[i][i] *= 1 + 1e-9 // sums may depend on one another
	}
	return solveLinear(m)
}

// solveLinear solves equations whose matrix is positive definite, by elimination.
func solveLinear(m [features][features + 1]float64) (x [features]float64) {
	for i := range features {
		for j := i + 1; j < features; j++ {
			f := m[j][i] / m[i][i]
			for k := i; k <= features; k++ {
				m[j][k] -= f * m[i][k]
			}
		}
	}
	for i := features - 1; i >= 0; i-- {
		x[i] = m[i][features]
		for k := i + 1; k < features; k++ {
			x[i] -= m[i][k] * x[k]
		}
		x[i] /= m[i][i]
	}
	return x
}
