package cond

// Unbiased returns labels whose expectation, over the answers, is the middle of the true label's
// bin. With c_j the middles, m bins and keep of [exact.Response], an answer a stands for (c_a - (1
// - keep)·mean(c))/keep. They scatter more than Values, by Variance; a fit of many examples
// averages the scatter, while it would fit Values too flat. A label's place within its bin stays
// lost, for any number of examples.
func (n *NoisyLabels) Unbiased() []float64 {
	u := n.Bins.unbiased()
	out := make([]float64, len(n.Answers))
	for i, a := range n.Answers {
		out[i] = u[a]
	}
	return out
}

// unbiased returns the value of each answer.
func (b *Bins) unbiased() []float64 {
	out, keep := b.middles(), b.response.Keep()
	var mean float64
	for _, c := range out {
		mean += c / float64(len(out))
	}
	for j, c := range out {
		out[j] = (c - (1-keep)*mean) / keep
	}
	return out
}

// middles returns the mean labels of the bins, by the noisy histogram; for an empty bin, the middle
// of its cells.
func (b *Bins) middles() []float64 {
	out, start := make([]float64, len(b.Ends)), 0
	for j, end := range b.Ends {
		var share, sum, plain float64
		for c := start; c < end; c++ {
			share += b.Shares[c]
			sum += b.Shares[c] * b.Options.middle(c)
			plain += b.Options.middle(c) / float64(end-start)
		}
		if out[j] = plain; share > 0 {
			out[j] = sum / share
		}
		start = end
	}
	return out
}

// Variance returns the scatter of unbiased labels, by the noisy histogram: the mean square of their
// distance from the true label's cell.
func (b *Bins) Variance() float64 {
	u, keep := b.unbiased(), b.response.Keep()
	even := (1 - keep) / float64(len(u)) // the chance of any bin; the true bin has keep more
	var sum float64
	for c, share := range b.Shares {
		for j, v := range u {
			chance := even
			if j == b.bin(c) {
				chance += keep
			}
			d := v - b.Options.middle(c)
			sum += share * chance * d * d
		}
	}
	return sum
}

// square returns the mean square of labels, by the noisy histogram.
func (b *Bins) square() (sum float64) {
	for c, share := range b.Shares {
		m := b.Options.middle(c)
		sum += share * m * m
	}
	return sum
}
