package serving

import (
	"fmt"
	"math"

	"github.com/fedsim/fedsim/fedssp/kernel"
)

// records reports whether the state has the session's own sums: it has them if a session can start from them.
func (s *Strategy) records() bool {
	_, ok := s.Solving.(Resumer)
	return ok && s.All.TopItems == 0
}

// parts lists the parts of a record: the numbers of each, and its number of precisions.
func (r *Record) parts(p *kernel.Params) []recordPart {
	m, d := p.Items, p.Rank
	return []recordPart{
		{&r.Mean, nil, 2, 1}, {&r.Bias, nil, m, m}, {&r.Moments, nil, m * d, m},
		{nil, &r.Gramian, d * d, 0}, {nil, &r.Items, m * p.Packed(), 0},
	}
}

type recordPart struct {
	sum              **Sum
	plain            *[]float64
	size, precisions int
}

// save appends the session's own sums. Each part is 0 if there is none, or else 1 and its numbers. Precisions of a part are all equal, and one stands for them.
func (r *Record) save(b []byte) []byte {
	for _, x := range r.parts(&kernel.Params{}) {
		switch {
		case x.sum != nil && *x.sum != nil:
			b = kernel.AppendFloats(append(b, 1), (*x.sum).Precision[0])
			b = kernel.AppendFloats(b, (*x.sum).Value...)
		case x.plain != nil && len(*x.plain) > 0:
			b = kernel.AppendFloats(append(b, 1), *x.plain...)
		default:
			b = append(b, 0)
		}
	}
	return b
}

// restoreRecord reads the form of save, and returns the bytes after it.
func restoreRecord(p *kernel.Params, b []byte) (r Record, rest []byte, err error) {
	for i, x := range r.parts(p) {
		if len(b) == 0 || b[0] > 1 {
			return r, nil, fmt.Errorf("fedssp: the state ends before part %d of the record of its sums, which must begin with 0 or 1", i+1)
		}
		there := b[0] == 1
		if b = b[1:]; !there {
			continue
		}
		size := 8 * x.size
		if x.sum != nil {
			size += 8
		}
		if len(b) < size {
			return r, nil, fmt.Errorf("fedssp: the state has %d bytes in part %d of the record of its sums; there must be %d", len(b), i+1, size)
		}
		numbers := kernel.Numbers(b[:size])
		b = b[size:]
		for k, v := range numbers {
			if first := x.sum != nil && k == 0; math.IsNaN(v) || math.IsInf(v, 0) && !(first && v > 0) || first && v < 0 {
				return r, nil, fmt.Errorf("fedssp: part %d of the record of the state's sums holds %v at place %d", i+1, v, k)
			}
		}
		if x.plain != nil {
			*x.plain = numbers
			continue
		}
		*x.sum = NewSum(numbers[1:], x.precisions, 1)
		for k := range (*x.sum).Precision {
			(*x.sum).Precision[k] = numbers[0]
		}
	}
	return r, b, nil
}
