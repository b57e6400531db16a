package fmf

// turn takes the gradient step of a rating on u_i and v_j, sets negative coordinates to zero,
// and returns the squared norms. It takes four coordinates at a time. Sums are of four parts, so that
// no addition waits for the addition before it.
func turn(ui, vj []float64, value, rate float64) (normU, normV float64) {
	step := rate * (value - dot(ui, vj))
	var u0, u1, v0, v1 float64
	c := 0
	for ; c+4 <= len(ui); c += 4 {
		a, b := (*[4]float64)(ui[c:]), (*[4]float64)(vj[c:])
		x0, x1, x2, x3 := a[0], a[1], a[2], a[3]
		y0, y1, y2, y3 := b[0], b[1], b[2], b[3]
		p0, p1, p2, p3 := positive(x0+step*y0), positive(x1+step*y1), positive(x2+step*y2), positive(x3+step*y3)
		a[0], a[1], a[2], a[3] = p0, p1, p2, p3
		u0 += p0*p0 + p2*p2
		u1 += p1*p1 + p3*p3
		p0, p1, p2, p3 = positive(y0+step*x0), positive(y1+step*x1), positive(y2+step*x2), positive(y3+step*x3)
		b[0], b[1], b[2], b[3] = p0, p1, p2, p3
		v0 += p0*p0 + p2*p2
		v1 += p1*p1 + p3*p3
	}
	for ; c < len(ui); c++ {
		x, y := ui[c], vj[c]
		p, q := positive(x+step*y), positive(y+step*x)
		ui[c], vj[c] = p, q
		u0 += p * p
		v0 += q * q
	}
	return u0 + u1, v0 + v1
}

// dot is the inner product, as the sum of four parts.
func dot(x, y []float64) float64 {
	var s0, s1, s2, s3 float64
	c := 0
	for ; c+4 <= len(x); c += 4 {
		a, b := (*[4]float64)(x[c:]), (*[4]float64)(y[c:])
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
	}
	for ; c < len(x); c++ {
		s0 += x[c] * y[c]
	}
	return (s0 + s1) + (s2 + s3)
}

// positive is x, or 0 if x is negative.
func positive(x float64) float64 {
	if x < 0 {
		return 0
	}
	return x
}
