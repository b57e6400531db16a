package dense

// addPairsOneByOne adds multiples of four rows, step apart, to one vector and other multiples to another:
// the first four factors belong to the first vector. Reads and writes take most of the time, so that
// a row that is read serves both.
func addPairsOneByOne(to, next, rows []float64, step int, f *[8]float64) {
	f0, f1, f2, f3, g0, g1, g2, g3 := f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7]
	next = next[:len(to)]
	y0, y1, y2, y3 := rows[:len(to)], rows[step:][:len(to)], rows[2*step:][:len(to)], rows[3*step:][:len(to)]
	for j, sum := range to {
		z0, z1, z2, z3 := y0[j], y1[j], y2[j], y3[j]
		to[j] = sum + f0*z0 + f1*z1 + f2*z2 + f3*z3
		next[j] = next[j] + g0*z0 + g1*z1 + g2*z2 + g3*z3
	}
}
