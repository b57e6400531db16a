package kernel

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// table holds a party's ratings by user: the ratings of row i begin at start[i] and end before
// start[i+1]. Items are indices of the party's V.
type table struct {
	start []int
	items []int32
	value []float32
}

// CheckRatings checks that items are below items and different, and that values are in [0, top]:
// the sensitivity holds for no other ratings.
func CheckRatings(rows []model.Ratings, items int, top float64) error {
	last := make([]int, items) // row, from 1, that rated the item last
	for i, r := range rows {
		if len(r.Items) != len(r.Values) {
			return fmt.Errorf("fedmf: row %d has %d items and %d values; a rating is one item and one value", i, len(r.Items), len(r.Values))
		}
		for k, j := range r.Items {
			if j < 0 || int(j) >= items {
				return fmt.Errorf("fedmf: row %d rates item %d; items are from 0 to %d", i, j, items-1)
			}
			if last[j] == i+1 {
				return fmt.Errorf("fedmf: row %d rates item %d twice; the noise covers one rating of an item", i, j)
			}
			if x := float64(r.Values[k]); !(x >= 0 && x <= top) {
				return fmt.Errorf("fedmf: row %d rates item %d with %v; ratings are from 0 to %v", i, j, x, top)
			}
			last[j] = i + 1
		}
	}
	return nil
}

// party is the common part of [Vertical] and [Horizontal].
type party struct {
	params  *PartyParams
	Own     []int32  // the items (VFL) or users (HFL) of the party, as indices of all
	ratings *table   // all ratings of the party
	weight  float64  // share of Own in all items or users
	steps   *stepper // nil before the first round
	// Users is U as the party knows it (VFL), or U_k as trained in stages 1 and 2, which the party never shares (HFL). It is nil before
	// the first round.
	Users *model.Matrix
}

// newParty makes the part of a party with some of n items or users. rows are ratings of the given number of items.
func newParty(p *PartyParams, what string, own []int32, n int, rows []model.Ratings, items int) (party, error) {
	if err := errors.Join(checkOwned(what, own, n), CheckRatings(rows, items, p.MaxRating)); err != nil {
		return party{}, err
	}
	return party{params: p, Own: own, ratings: newTable(rows), weight: float64(len(own)) / float64(n)}, nil
}

// prepare trims the ratings for steps that begin at v.
func (t *party) prepare(v *model.Matrix, src entropy.Source) error {
	trimmed := t.ratings
	if t.params.ClipRatings > 0 {
		rows, err := Trim(t.ratings.all(), t.params.ClipRatings, src.Stream("trim", 0))
		if err != nil {
			return err
		}
		trimmed = newTable(rows)
	}
	t.steps = newStepper(t.params, trimmed, v)
	return nil
}

// train takes the T' local steps of a round. Steps have numbers from 1 over the whole run.
func (t *party) train(round uint64, n protocol.Noise, src entropy.Source, step func(number int) error) error {
	if err := t.steps.begin(n, src, "local-steps", round); err != nil {
		return err
	}
	for k := range t.params.LocalSteps {
		if err := step(int(round-1)*t.params.LocalSteps + k + 1); err != nil {
			return err
		}
	}
	return nil
}

// checkOwned checks that a party's indices are below n and different.
func checkOwned(what string, own []int32, n int) error {
	seen := make([]bool, n)
	for _, j := range own {
		if j < 0 || int(j) >= n {
			return fmt.Errorf("fedmf: a party owns %s %d; they are from 0 to %d", what, j, n-1)
		}
		if seen[j] {
			return fmt.Errorf("fedmf: a party owns %s %d twice", what, j)
		}
		seen[j] = true
	}
	return nil
}

func newTable(rows []model.Ratings) *table {
	t := &table{start: make([]int, len(rows)+1)}
	for i, r := range rows {
		t.start[i+1] = t.start[i] + len(r.Items)
	}
	t.items, t.value = make([]int32, 0, t.start[len(rows)]), make([]float32, 0, t.start[len(rows)])
	for _, r := range rows {
		t.items, t.value = append(t.items, r.Items...), append(t.value, r.Values...)
	}
	return t
}

func (t *table) rows() int { return len(t.start) - 1 }

func (t *table) row(i int) model.Ratings {
	return model.Ratings{Items: t.items[t.start[i]:t.start[i+1]], Values: t.value[t.start[i]:t.start[i+1]]}
}

// all returns the ratings of every row.
func (t *table) all() []model.Ratings {
	rows := make([]model.Ratings, t.rows())
	for i := range rows {
		rows[i] = t.row(i)
	}
	return rows
}

// Trim keeps at most theta ratings of each row, each as likely (random trimming, FMF paper, section
// 4.1.1). It changes neither rows nor their ratings.
func Trim(rows []model.Ratings, theta int, random io.Reader) ([]model.Ratings, error) {
	rows = slices.Clone(rows)
	for i, r := range rows {
		if len(r.Items) <= theta {
			continue
		}
		items, values := slices.Clone(r.Items), slices.Clone(r.Values)
		for k := range theta {
			pick, err := entropy.Uniform(random, uint64(len(items)-k))
			if err != nil {
				return nil, fmt.Errorf("fedmf: trimming: %w", err)
			}
			j := k + int(pick)
			items[k], items[j] = items[j], items[k]
			values[k], values[j] = values[j], values[k]
		}
		rows[i] = model.Ratings{Items: items[:theta], Values: values[:theta]}
	}
	return rows, nil
}

// sampler draws Poisson samples: every index takes part independently with probability q, at least
// 1e-9. It draws the gaps between the sampled indices, which are geometric. Rounding changes the
// chance of an index by less than 1e-9, relative.
type sampler struct {
	random *noise.Bits
	perLog float64 // 1/log(1-q); 0 where everything takes part
}

func newSampler(q float64, random io.Reader) *sampler {
	s := &sampler{random: noise.NewBits(random)}
	if q < 1 {
		s.perLog = 1 / math.Log1p(-q)
	}
	return s
}

// draw appends a sample of 0..n-1, ascending, to dst.
func (s *sampler) draw(n int, dst []int) ([]int, error) {
	for i := 0; ; i++ {
		gap := s.gap()
		if err := s.random.Err(); err != nil {
			return nil, fmt.Errorf("fedmf: drawing a sample: %w", err)
		}
		if gap >= float64(n-i) {
			return dst, nil
		}
		i += int(gap)
		dst = append(dst, i)
	}
}

// gap returns the number of indices to pass over before the next sampled index.
func (s *sampler) gap() float64 {
	if s.perLog == 0 {
		return 0
	}
	x := s.random.Uint64()
	if gap, sure := quickGap(x, s.perLog); sure {
		return gap
	}
	return gapOf(x, s.perLog)
}

// stepper takes the local steps of a party: the common part of VFL and HFL.
type stepper struct {
	params  *PartyParams
	ratings *table // trimmed
	v       *model.Matrix

	sampler *sampler
	noise   *noise.Bits // the source of noise; nil: no noise is added
	z       float64     // noise multiplier

	picked    []int
	touched   []int // rows of U with a sampled rating
	gradU     []float64
	gradV     *model.Matrix
	residuals []float64
	gathered  model.Ratings
}

func newStepper(p *PartyParams, ratings *table, v *model.Matrix) *stepper {
	return &stepper{params: p, ratings: ratings, v: v, gradV: model.NewMatrix(v.Rows(), v.Cols()), touched: []int{}}
}

// begin sets up the randomness of a round: AES-CTR streams keyed by a seed from src, since
// noise needs more bytes than a system's generator gives at speed.
func (s *stepper) begin(n protocol.Noise, src entropy.Source, label string, round uint64) error {
	seed, err := entropy.NewSeed(src, label, round)
	if err != nil {
		return err
	}
	s.sampler = newSampler(n.SamplingRate, seed.Stream("sample"))
	s.noise, s.z = nil, n.Multiplier
	if n.Kind == protocol.PartyNoise || s.params.langevin() {
		s.noise = noise.NewBits(seed.Stream("noise"))
	}
	return nil
}

// gradients draws a sample and sums its units' descent directions: gradV over
// all of V, gradU for the touched rows of u. With both false, U is fixed and
// gradU not computed.
func (s *stepper) gradients(u *model.Matrix, both bool) error {
	n := s.ratings.rows()
	if s.params.Unit == dp.Rating {
		n = len(s.ratings.items)
	}
	var err error
	if s.picked, err = s.sampler.draw(n, s.picked[:0]); err != nil {
		return err
	}
	s.touched, s.gradU = s.touched[:0], s.gradU[:0]
	clear(s.gradV.Data())
	row := 0
	for k := 0; k < len(s.picked); {
		var r model.Ratings
		if s.params.Unit == dp.User {
			row = s.picked[k]
			r = s.ratings.row(row)
			k++
		} else {
			for s.ratings.start[row+1] <= s.picked[k] { // the user of the rating is at or behind row
				row++
			}
			k, r = s.gather(k, s.ratings.start[row+1])
		}
		if len(r.Items) > 0 {
			s.add(row, u.Row(row), r, both)
		}
	}
	return nil
}

// gather collects the picked ratings from the k-th on that stand before end.
func (s *stepper) gather(k, end int) (int, model.Ratings) {
	g := model.Ratings{Items: s.gathered.Items[:0], Values: s.gathered.Values[:0]}
	for ; k < len(s.picked) && s.picked[k] < end; k++ {
		g.Items = append(g.Items, s.ratings.items[s.picked[k]])
		g.Values = append(g.Values, s.ratings.value[s.picked[k]])
	}
	s.gathered = g
	return k, g
}

// add adds the gradient of a user's sampled ratings.
func (s *stepper) add(row int, u []float64, r model.Ratings, both bool) {
	d := len(u)
	s.residuals = s.residuals[:0]
	for k, j := range r.Items {
		s.residuals = append(s.residuals, float64(r.Values[k])-model.Dot(u, s.v.Row(int(j))))
	}
	switch s.params.Clipping {
	case EmbeddingClipping:
	case ResidualClipping:
		dense.ClampAll(s.residuals, s.params.MaxRating)
	default:
		s.clip(u, r, both)
	}
	if both {
		s.touched = append(s.touched, row)
		for range d {
			s.gradU = append(s.gradU, 0)
		}
	}
	for k, j := range r.Items {
		e := 2 * s.residuals[k]
		v, gv := s.v.Row(int(j)), s.gradV.Row(int(j))
		for i, ui := range u {
			gv[i] += e * ui
		}
		if both {
			gu := s.gradU[len(s.gradU)-d:]
			for i, vi := range v {
				gu[i] += e * vi
			}
		}
	}
}

// clip scales the residuals so that the gradient of a unit, of U and V together
// or of V alone, has norm at most C. It is linear in the residuals.
func (s *stepper) clip(u []float64, r model.Ratings, both bool) {
	c, uu := s.params.Clip, model.Dot(u, u)
	if s.params.Unit == dp.Rating {
		for k, j := range r.Items {
			norm2 := uu
			if both {
				v := s.v.Row(int(j))
				norm2 += model.Dot(v, v)
			}
			if norm := 2 * math.Abs(s.residuals[k]) * math.Sqrt(norm2); !(norm <= c) {
				s.residuals[k] *= c / norm
			}
			if math.IsNaN(s.residuals[k]) {
				s.residuals[k] = 0 // no noise hides a NaN
			}
		}
		return
	}
	var norm2 float64
	sum := make([]float64, len(u)) // of U's row
	for k, j := range r.Items {
		e := 2 * s.residuals[k]
		norm2 += e * e * uu
		if both {
			for i, vi := range s.v.Row(int(j)) {
				sum[i] += e * vi
			}
		}
	}
	norm := math.Sqrt(norm2 + model.Dot(sum, sum))
	if norm <= c {
		return
	}
	for k := range s.residuals {
		if s.residuals[k] *= c / norm; math.IsNaN(s.residuals[k]) {
			s.residuals[k] = 0
		}
	}
}

// blockSize is the number of coordinates that get their noise at once, before their rows are
// projected: they stay in the fastest cache in between.
const blockSize = 2048

// move adds gain·(gradient + σ·noise) to x and projects its rows. grad holds the
// gradient of the given rows; rows nil: of all. Without noise only rows with a
// gradient move.
func (s *stepper) move(x *model.Matrix, grad []float64, rows []int, gain, sigma float64) error {
	deviation := gain * sigma
	if s.params.langevin() {
		deviation = s.langevin(x, gain, deviation)
	}
	step := max(1, blockSize/x.Cols())
	for from := 0; from < x.Rows(); from += step {
		to := min(from+step, x.Rows())
		if err := s.addNoise(x.Data()[from*x.Cols():to*x.Cols()], deviation); err != nil {
			return err
		}
		for i := from; i < to; i++ {
			var g []float64
			switch {
			case rows == nil:
				g = grad[i*x.Cols() : (i+1)*x.Cols()]
			case len(rows) > 0 && rows[0] == i:
				g, grad, rows = grad[:x.Cols()], grad[x.Cols():], rows[1:]
			}
			if g != nil || s.noise != nil {
				s.shift(x.Row(i), g, gain)
			}
		}
	}
	return nil
}

// langevin takes the prior's part of a step of x, which no rating moves, and returns the deviation
// of the step's noise. A step of η is η/2 times the gradient of the log-posterior. A sample of rate
// q stands there for 1/q times as much, so gain = η/(2q). Its noise has variance η, or the variance
// for privacy if that is larger.
func (s *stepper) langevin(x *model.Matrix, gain, private float64) float64 {
	half := gain * s.params.SamplingRate
	shrunk := max(0, 1-half*s.params.Prior)
	for i, v := range x.Data() {
		x.Data()[i] = v * shrunk
	}
	return max(private, math.Sqrt(2*half))
}

// addNoise adds noise to every coordinate, if any is to be added.
func (s *stepper) addNoise(x []float64, sigma float64) error {
	if s.noise == nil {
		return nil
	}
	normal, err := noise.NewGaussian(sigma)
	if err != nil {
		return fmt.Errorf("fedmf: %w", err)
	}
	if err = normal.Add(x, s.noise); err != nil {
		return fmt.Errorf("fedmf: drawing noise: %w", err)
	}
	return nil
}

// shift adds gain·grad to a row and projects it.
func (s *stepper) shift(row, grad []float64, gain float64) {
	for c, g := range grad {
		row[c] += gain * g
	}
	s.params.project(row)
}

// gapOf returns the geometric gap of 64 random bits. perLog is 1/log(1-q): the gap is at least g
// with probability (1-q)^g.
func gapOf(x uint64, perLog float64) float64 {
	// Small u are the short gaps, where float64 is finest.
	u := (float64(x) + 0.5) * 0x1p-64
	return math.Floor(math.Log1p(-u) * perLog)
}

const (
	logBits = 8 // bits of a mantissa that choose the entry of logs
	// quickError bounds the difference between the logarithms of quickGap and gapOf, if x is at
	// most mostQuick. Then 1-u is at least 2^-12 and its logarithm at most 8.4.
	//
	// The difference is below half of quickError. gapOf rounds u by 2^-53 at most, which is 4.6e-13
	// in the logarithm. The other parts are a fiftieth of that: 1e-16 for the bits of x that
	// quickGap leaves out, 6e-15 for the series from the fifth term, and some 1e-15 for each
	// rounded sum or logarithm.
	quickError = 1e-12
	mostQuick  = math.MaxUint64 - 1<<52
)

// logs has, for each beginning of a mantissa, the reciprocal of the middle of its interval, and the
// negative logarithm of that reciprocal.
var logs = func() (table [1 << logBits]struct{ reciprocal, log float64 }) {
	for i := range table {
		middle := 1 + (float64(i)+0.5)/(1<<logBits)
		table[i].reciprocal = 1 / middle
		table[i].log = -math.Log(table[i].reciprocal)
	}
	return table
}()

// quickGap computes gapOf in less time, or reports that it is not sure. It takes the logarithm from
// a table and four terms of a series, and is sure if no whole number is within its error. So it
// changes no gap, and gaps keep the law of gapOf.
func quickGap(x uint64, perLog float64) (gap float64, sure bool) {
	if x > mostQuick {
		return 0, false
	}
	b := math.Float64bits(float64(int64(^x>>1)) + 0.5) // of 2^63·(1-u)
	entry := &logs[b>>(52-logBits)%(1<<logBits)]
	mantissa := math.Float64frombits(b&(1<<52-1) | 1023<<52)
	r := mantissa*entry.reciprocal - 1 // at most 2^-9 either way
	log := float64(int(b>>52)-1023-63)*math.Ln2 + (entry.log + r*(1-r*(0.5-r*(1./3-r/4))))
	g := log * perLog
	// The product is rounded here and in gapOf, half a unit in the last place each.
	within := -quickError*perLog + 0x1p-51*g
	gap = math.Floor(g - within)
	return gap, gap == math.Floor(g+within)
}
