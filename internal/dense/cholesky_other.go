//go:build !amd64 || purego

package dense

// factor replaces the upper triangle of a by its factor U, and b by U⁻ᵀb.
func factor(a, b []float64, d int) bool { return factorOneByOne(a, b, d) }
