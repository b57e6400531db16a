package cond

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Names of releases and phases.
const (
	Moments     = "moments"     // sums of public data
	Conditioned = "conditioned" // the phase of gradients of conditioned features
	Plain       = "plain"       // the phase of gradients of plain features
	Gradient    = "gradient"    // the release of both phases
)

// params holds the settings that both sides of a run agree on.
type params struct {
	layout
	items  *catalogue
	middle float64 // of the labels' range: every prediction before training
	// deviation is the assumed deviation of labels from middle, before any is known: an eighth of the range.
	deviation float64
	clip      float64 // the L2 bound of an example's gradient
	publish   float64 // factor of public sums: see momentsRelease
	most      float64 // largest possible number of examples
	longest   float64 // the largest L2 norm of a profile's row in the moments
}

// Examples holds a party's data: the users' profiles and labels. It is a client.Trainer.
type Examples struct {
	params  *params
	profile blas64.General // users x columns
	start   []int          // the labels of user u are label[start[u]:start[u+1]]
	item    []int32
	label   []float64 // less the middle of the range

	sent  []float64 // the applied transform, as it was broadcast
	using *transform
	rows  *transformed
	final []float64 // weights, of a run that has ended
}

// transformed holds features after the transform, and their lengths.
type transformed struct {
	profile  blas64.General
	items    blas64.General
	users    []float64 // squared lengths of rows of the profile
	catalog  []float64 // of items' features, their own included
	idScales []float64 // the value at an item's own place
}

// newExamples takes the labels of users. The profile is row by row and may be nil.
func newExamples(p *params, profile []float64, rows []model.Ratings) *Examples {
	x := &Examples{params: p, start: []int{0}}
	if p.profile > 0 {
		x.profile = dense.General(profile, len(rows), p.profile)
	}
	for _, r := range rows {
		x.item = append(x.item, r.Items...)
		for _, v := range r.Values {
			x.label = append(x.label, float64(v)-p.middle)
		}
		x.start = append(x.start, len(x.item))
	}
	return x
}

func (x *Examples) Contribute(p *protocol.Plan, _ entropy.Source, run protocol.Runner) ([]protocol.Vector, error) {
	if p.OwnNoise() {
		return nil, errors.New("cond: the plan asks parties for noise of their own, which they do not add; the ledger would be charged for missing noise")
	}
	if p.Phase == Moments {
		return []protocol.Vector{{Value: x.moments()}}, nil
	}
	conditioned := p.Phase == Conditioned
	if !conditioned && p.Phase != Plain {
		return nil, fmt.Errorf("cond: the phase is %q; it must be %s, %s or %s", p.Phase, Moments, Conditioned, Plain)
	}
	n := x.params.len()
	b, err := model.NewBroadcast(p.Broadcast, n+x.params.size(conditioned), 1)
	if err != nil {
		return nil, err
	}
	v := b.Matrix().Data()
	x.use(v[n:])
	return []protocol.Vector{{Value: x.gradient(v[:n], run)}}, nil
}

// Finish keeps the final weights. A party does the remaining work when it predicts.
func (x *Examples) Finish(weights []byte, _ protocol.Runner) error {
	b, err := model.NewBroadcast(weights, x.params.len(), 1)
	if err == nil {
		x.final = b.Matrix().Data()
	}
	return err
}

// moments returns the sums of public data: the number of examples of each item, and the second moments of profiles over examples.
func (x *Examples) moments() []float64 {
	l, items := x.params.layout, x.params.items.rows.Rows()
	sums := make([]float64, items+packed(l.profile))
	for _, j := range x.item {
		sums[j]++
	}
	for u := range x.users() {
		count := float64(x.start[u+1] - x.start[u])
		if l.profile == 0 || count == 0 {
			continue
		}
		row := x.profile.Data[u*l.profile : (u+1)*l.profile]
		if length := blas64.Nrm2(dense.Vector(row)); length > x.params.longest {
			count *= x.params.longest / length * x.params.longest / length
		}
		at := items
		for a, v := range row {
			for _, w := range row[a:] {
				sums[at] += count * v * w
				at++
			}
		}
	}
	floats.Scale(x.params.publish, sums)
	return sums
}

func (x *Examples) users() int { return len(x.start) - 1 }

// use applies a broadcast transform, unless it equals the previous transform.
func (x *Examples) use(numbers []float64) {
	if x.rows != nil && slices.Equal(numbers, x.sent) {
		return
	}
	x.sent, x.using = slices.Clone(numbers), readTransform(x.params.layout, numbers)
	t, l := x.using, x.params.layout
	c := x.params.items.rows
	r := &transformed{items: times(dense.General(c.Data(), c.Rows(), c.Cols()), t.features, t.scale), users: make([]float64, x.users())}
	r.catalog = squares(r.items)
	if l.profile > 0 {
		r.profile = times(x.profile, t.profile, t.scale)
		r.users = squares(r.profile)
	}
	if l.ids > 0 {
		r.idScales = make([]float64, l.ids)
		for j := range r.idScales {
			r.idScales[j] = t.scale
			if t.ids != nil {
				r.idScales[j] *= t.ids[j]
			}
			r.catalog[j] += r.idScales[j] * r.idScales[j]
		}
	}
	x.rows = r
}

// chunk is the number of users summed at a time: the order of additions does not depend on the number of workers.
const chunk = 2048

// gradient returns the sum over examples of the square loss's gradient with respect to θ, each clipped. The gradient of a linear
// model is a multiple of the features. So its length is known without it, and two products over all examples suffice.
func (x *Examples) gradient(theta []float64, run protocol.Runner) []float64 {
	l, r := x.params.layout, x.rows
	items := r.items.Rows
	ofItems := make([]float64, items)
	blas64.Gemv(blas.NoTrans, 1, r.items, dense.Vector(theta[l.profile:l.profile+l.features]), 0, dense.Vector(ofItems))
	for j, s := range r.idScales {
		ofItems[j] += s * theta[l.profile+l.features+j]
	}
	parts := make([]partial, (x.users()+chunk-1)/chunk)
	run.Each(len(parts), func(k int) { parts[k] = x.slopes(theta, ofItems, k*chunk, min((k+1)*chunk, x.users())) })
	g := make([]float64, l.len())
	byItem := make([]float64, items)
	for _, p := range parts {
		floats.Add(g[:l.profile], p.profile)
		floats.Add(byItem, p.items)
	}
	blas64.Gemv(blas.Trans, 1, r.items, dense.Vector(byItem), 0, dense.Vector(g[l.profile:l.profile+l.features]))
	for j, s := range r.idScales {
		g[l.profile+l.features+j] = s * byItem[j]
	}
	return g
}

// partial is some users' part of a gradient: in the coordinates of the profile, and the slopes of their examples by item.
type partial struct{ profile, items []float64 }

// slopes returns the slopes of users from to to-1.
func (x *Examples) slopes(theta, ofItems []float64, from, to int) partial {
	l, r := x.params.layout, x.rows
	out := partial{items: make([]float64, len(ofItems))}
	ofUsers, byUser := make([]float64, to-from), make([]float64, to-from)
	var profile blas64.General
	if l.profile > 0 {
		profile = dense.General(r.profile.Data[from*l.profile:to*l.profile], to-from, l.profile)
		blas64.Gemv(blas.NoTrans, 1, profile, dense.Vector(theta[:l.profile]), 0, dense.Vector(ofUsers))
	}
	for u := from; u < to; u++ {
		for k := x.start[u]; k < x.start[u+1]; k++ {
			j := x.item[k]
			s := clipped(2*(ofUsers[u-from]+ofItems[j]-x.label[k]), math.Sqrt(r.users[u]+r.catalog[j]), x.params.clip)
			byUser[u-from] += s
			out.items[j] += s
		}
	}
	if l.profile > 0 {
		out.profile = make([]float64, l.profile)
		blas64.Gemv(blas.Trans, 1, profile, dense.Vector(byUser), 0, dense.Vector(out.profile))
	}
	return out
}

// clipped returns the factor nearest to s with which a row of the length stays within clip. It also
// holds for labels that are infinite or NaN: a bound with exceptions is none.
func clipped(s, length, clip float64) float64 {
	switch most := clip / length; {
	case length == 0:
		return 0
	case math.Abs(s) <= most:
		return s
	default:
		return math.Copysign(most, s)
	}
}

// times returns scale·x·c; a nil c is the identity.
func times(x blas64.General, c *model.Matrix, scale float64) blas64.General {
	out := dense.General(make([]float64, x.Rows*x.Cols), x.Rows, x.Cols)
	if c == nil {
		floats.ScaleTo(out.Data, scale, x.Data)
		return out
	}
	blas64.Gemm(blas.NoTrans, blas.NoTrans, scale, x, dense.General(c.Data(), x.Cols, x.Cols), 0, out)
	return out
}

// squares returns the squared lengths of the rows.
func squares(x blas64.General) []float64 {
	out := make([]float64, x.Rows)
	for i := range out {
		row := x.Data[i*x.Cols : (i+1)*x.Cols]
		out[i] = model.Dot(row, row)
	}
	return out
}
