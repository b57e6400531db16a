//go:build !amd64 || purego

package kernel

func turn(ui, vj []float64, value, rate float64) (normU, normV float64) {
	return turnByFours(ui, vj, value, rate)
}
