package encoder

import "math"

// These are the constants of Adam (Kingma & Ba, section 2).
const (
	beta1   = 0.9
	beta2   = 0.999
	epsilon = 1e-8
)

// optimiser takes the steps of θ, a stretch of it at a time, so that workers can take stretches in
// parallel.
type optimiser struct {
	kind  Optimiser
	steps uint64    // taken so far; Adam only
	mean  []float64 // running mean of the gradient; Adam only
	sq    []float64 // running mean of its square; Adam only

	rate, meanScale, sqScale float64 // of the step that is being taken
}

// begin opens a step at a learning rate.
func (o *optimiser) begin(rate float64) {
	o.rate = rate
	if o.kind == Adam {
		o.steps++
		o.meanScale = 1 / (1 - math.Pow(beta1, float64(o.steps)))
		o.sqScale = 1 / (1 - math.Pow(beta2, float64(o.steps)))
	}
}

// take moves the stretch of theta that begins at first against its gradient.
func (o *optimiser) take(theta, grad []float64, first int) {
	if o.kind == SGD {
		for i, g := range grad {
			theta[i] -= o.rate * g
		}
		return
	}
	mean, sq := o.mean[first:first+len(grad)], o.sq[first:first+len(grad)]
	for i, g := range grad {
		mean[i] = beta1*mean[i] + (1-beta1)*g
		sq[i] = beta2*sq[i] + (1-beta2)*g*g
		theta[i] -= o.rate * (mean[i] * o.meanScale) / (math.Sqrt(sq[i]*o.sqScale) + epsilon)
	}
}
