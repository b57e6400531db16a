package audit

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/graph"
)

// The size of the audited federation. The privacy of a release does not depend on the numbers of items and clients,
// except the clients that share its noise. A small federation is audited fast.
const (
	Users = 12
	Items = 3
	// Parties is the number of organisations, if organisations are clients.
	Parties = 2
)

// Open opens an experiment as it is audited: on a small federation whose clients draw their own
// noise, without the cryptography, which changes no sum.
func Open(said []config.Setting) (*experiment.Experiment, error) {
	// The default number of parties is for more items than there are.
	said, _ = config.Over([]config.Setting{{Key: algorithm.Parties.Name, Value: strconv.Itoa(Parties), Origin: "the audit"}}, said)
	c, err := config.Resolve(said)
	if err != nil {
		return nil, err
	}
	algorithm.NoiseDraw.Set(&c, "client")
	if algorithm.SplitBy.Is(c, string(split.Random)) { // nothing is measured, and of so few ratings a test part may be empty
		algorithm.SplitTest.Set(&c, 0)
		algorithm.SplitValidation.Set(&c, 0)
	}
	if algorithm.Secagg.Is(c, "real") {
		algorithm.Secagg.Set(&c, "ideal")
		algorithm.Mode.Set(&c, graph.SemiHonest.String())
	}
	if algorithm.CohortSize.Int(c) > Users/2 {
		algorithm.CohortSize.Set(&c, Users/2)
	}
	set, err := Small(c)
	if err != nil {
		return nil, err
	}
	return experiment.OpenSet(c, set)
}

// Small is the data of the audited federation: every user has rated every item, so that
// nothing but the settings decides what is released. The ratings go up and down the scale.
func Small(c config.Config) (*dataset.Set, error) {
	o := experiment.DataOptions(c)
	lo, hi := 1., 5.
	if o.Min == nil {
		o.Min = &lo
	}
	if o.Max == nil {
		o.Max = &hi
	}
	var list []read.Rating
	for u := range Users {
		for j := range Items {
			part := float64((u+2*j)%5) / 4
			list = append(list, read.Rating{
				User: fmt.Sprintf("user %d", u), Item: fmt.Sprintf("item %d", j), Value: *o.Min + math.Round(part*(*o.Max-*o.Min)), Time: float64(u*Items + j),
			})
		}
	}
	set, err := read.FromRatings("audit", list, o)
	if err != nil {
		return nil, err
	}
	set.Genres = make([][]string, set.Items) // public, for what learns from features
	for j := range set.Genres {
		set.Genres[j] = []string{[]string{"Comedy", "Drama"}[j%2]}
	}
	return set, nil
}

// target is the trainer of the unit's client: it sends what moves sums most.
type target struct{ vectors map[string]protocol.Vector }

// Contribute implements client.Trainer. Of releases of a sample it gives something where its coin says so.
func (v target) Contribute(p *protocol.Plan, src entropy.Source, _ protocol.Runner) ([]protocol.Vector, error) {
	var b [8]byte
	if _, err := io.ReadFull(src.Stream("batch", p.Round), b[:]); err != nil {
		return nil, err
	}
	toss := float64(binary.LittleEndian.Uint64(b[:])>>11) / (1 << 53)
	list := make([]protocol.Vector, len(p.Releases))
	for i, r := range p.Releases {
		list[i] = protocol.Vector{Index: []uint32{}}
		if x, there := v.vectors[r.Name]; there && toss < sampled(r) {
			list[i] = x
		}
	}
	return list, nil
}

// sampled is the chance of a client to be in a release.
func sampled(r protocol.Release) float64 {
	if r.Noise.SamplingRate == 0 {
		return 1
	}
	return r.Noise.SamplingRate
}

// Finish does nothing: the target has no model to finish.
func (target) Finish([]byte, protocol.Runner) error { return nil }

// worst returns the longest vector that the bounds of a release allow, on as few coordinates as
// they allow. If the noise is alike on all coordinates, the length tells the worlds apart. Among vectors of one
// length the L1 norm matters, and it is least on few coordinates.
func worst(r protocol.Release) protocol.Vector {
	most := func(bound float64) float64 {
		if bound == 0 {
			return math.Inf(1)
		}
		return bound
	}
	v := protocol.Vector{Value: make([]float64, r.Len)}
	length := r.L2
	if r.Sensitivity > 0 { // what one unit makes of it
		length = min(length, r.Sensitivity)
	}
	left2, left1 := length*length, most(r.L1)
	for j := range r.MaxNonZero {
		x := min(most(r.LInf), math.Sqrt(left2), left1)
		v.Value[j] = x
		left2, left1 = max(0, left2-x*x), left1-x
	}
	return v
}
